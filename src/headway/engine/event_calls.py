"""Calls an app's functions at events. They run apart from jobs, and change nothing.

A part of the worker leaves an event here and goes on. The service then calls the functions one after
another: plain ones in a thread, async ones on the event loop. An error is logged. If functions are slower
than the events, the newest events are dropped, and the log says how many.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from headway.core.clock import wall
from headway.core.current import as_current, info_of
from headway.core.hooks import Hooks, JobEvent, JobEventName, OnEvent, WorkerEvent, is_async
from headway.core.verdict import Kind, Verdict
from headway.engine.service import Service
from headway.store.documents import Settled
from headway.store.rows import Claim

log = logging.getLogger("headway.worker")

_MOST_WAITING = 10_000
_END_WITHIN = 5.0

_EVENT_OF: Mapping[Kind, JobEventName] = {
    "succeed": "succeeded",
    "advance": "advanced",
    "retry": "retried",
    "snooze": "snoozed",
    "fail": "failed",
    "cancel": "cancelled",
}
"""A job that is given back has not ended an attempt."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An event of a job, before its facts are decoded."""

    name: JobEventName
    claim: Claim
    verdict: Verdict | None
    at: datetime

    def event(self) -> JobEvent:
        job = info_of(self.claim)
        if self.verdict is None:
            return JobEvent(name=self.name, job=job, at=self.at)
        return JobEvent(
            name=self.name,
            job=job,
            at=self.at,
            error=self.verdict.error,
            exception=self.verdict.exception,
            delay=self.verdict.delay if self.name in ("retried", "snoozed") else None,
        )


class EventCalls(Service):
    """The events that wait for the functions of the app."""

    waits_long = True

    def __init__(self, hooks: Hooks) -> None:
        super().__init__()
        self._functions = dict(hooks.events)
        self._waiting: list[_Waiting | WorkerEvent] = []
        self._dropped = 0
        self._delivered = asyncio.Event()
        self._delivered.set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="headway-hooks")

    @property
    def wanted(self) -> bool:
        """Whether the app has any functions for events."""
        return bool(self._functions)

    @property
    def wants_starts(self) -> bool:
        return "started" in self._functions

    @property
    def wants_ends(self) -> bool:
        return not self._functions.keys().isdisjoint(_EVENT_OF.values())

    def started(self, claim: Claim) -> None:
        """Tell that an attempt begins."""
        self._add("started", _Waiting("started", claim, None, wall()))

    def settled(self, settled: Settled) -> None:
        """Tell that a verdict was written."""
        name = _EVENT_OF.get(settled.verdict.kind)
        if name is not None and name in self._functions:
            self._add(name, _Waiting(name, settled.claim, settled.verdict, wall()))

    def worker(self, event: WorkerEvent) -> None:
        """Tell that the worker began to serve, or has drained."""
        self._add(event.name, event)

    async def finish(self) -> None:
        """Call the functions for the events that wait, for some seconds. Then stop."""
        try:
            async with asyncio.timeout(_END_WITHIN):
                await self._delivered.wait()
        except TimeoutError:
            log.error("stopping before the functions for events have ended")
        await self.stop()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def turn(self) -> float | None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            if self._dropped:
                log.error("dropped %d events: their functions are too slow", self._dropped)
                self._dropped = 0
            await asyncio.get_running_loop().run_in_executor(self._thread, self._plain, waiting)
            await self._async(waiting)
        self._delivered.set()
        return None

    def _add(self, name: str, event: _Waiting | WorkerEvent) -> None:
        if name not in self._functions:
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._dropped += 1
            return
        self._waiting.append(event)
        self._delivered.clear()
        self.wake()

    def _plain(self, waiting: Sequence[_Waiting | WorkerEvent]) -> None:
        for one in waiting:
            for function in self._functions[one.name]:
                if not is_async(function):
                    with as_current(one.claim if isinstance(one, _Waiting) else None):
                        try:
                            function(_event(one))
                        except BaseException:  # nothing that a hook does may end the service
                            _report(one, function)

    async def _async(self, waiting: Sequence[_Waiting | WorkerEvent]) -> None:
        for one in waiting:
            for function in self._functions[one.name]:
                if is_async(function):
                    with as_current(one.claim if isinstance(one, _Waiting) else None):
                        try:
                            await function(_event(one))
                        except BaseException:
                            if self.stopping:
                                raise
                            _report(one, function)


def _event(waiting: _Waiting | WorkerEvent) -> JobEvent | WorkerEvent:
    return waiting.event() if isinstance(waiting, _Waiting) else waiting


def _report(waiting: _Waiting | WorkerEvent, function: OnEvent) -> None:
    name = getattr(function, "__qualname__", repr(function))
    log.exception("%s, a function for the event %r, raised", name, waiting.name)
