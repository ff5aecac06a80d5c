"""One lifecycle for every loop of a worker.

A service has one method, `turn`: do the work that is due, and return how long to rest. Only this module
starts, stops and wakes loops and backs off from faults. So no loop can spin during an outage, and no
exception can end one.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from headway.core.clock import monotonic
from headway.core.current import without_job
from headway.engine.service_status import StatusTracker
from headway.errors import DatabaseUnavailable, StandbyRefused

log = logging.getLogger("headway.worker")

_FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
_CANCEL_AGAIN = 0.5
_INNER_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class Service(ABC):
    """A loop that runs until it is stopped."""

    waits_long = False
    """Whether a turn lasts until something happens. Stopping the service then cancels the turn."""

    def __init__(self, woken: asyncio.Event | None = None) -> None:
        """`woken` wakes the service. Parts that are made before the service may hold it."""
        self._woken = woken or asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._pause = _FIRST_PAUSE
        self._ending = asyncio.Event()
        self.track = StatusTracker(self.name, waits_long=self.waits_long)
        """Records how its turns end."""
        self.turned_at = monotonic()
        """When its last turn ended, successfully or not. Before that, when it was created or started."""

    @property
    def stopping(self) -> bool:
        return self._ending.is_set()

    @property
    def name(self) -> str:
        """The class's name in snake case: logs, metrics and health findings say `job_loop`."""
        return _INNER_CAPITAL.sub("_", type(self).__name__).lower()

    def tracks(self) -> list[StatusTracker]:
        """Return all tracks of the service: one, unless parts of its turn may fail separately."""
        return [self.track]

    @abstractmethod
    async def turn(self) -> float | None:
        """Do the work that is due. Return the seconds to rest, or None to rest until woken."""

    async def close(self) -> None:  # noqa: B027 - most services hold nothing
        """Release the resources of the service. Called once, after its last turn."""

    def start(self) -> None:
        assert self._task is None, f"{self.name} was started twice"
        self.turned_at = monotonic()
        # A listener may start inside a handler, and it outlives the job.
        task = asyncio.create_task
        self._task = task(self._run(), name=f"headway-{self.name}", context=without_job())

    def wake(self) -> None:
        """End the rest. If a turn is running, another follows it without a rest."""
        self._woken.set()

    async def stop(self) -> None:
        """Let the current turn finish and start no other. Cancel a turn that only waits."""
        self._ending.set()
        self.wake()
        while self._task is not None and not self._task.done():
            # Repeat it: before Python 3.12 a cancellation that arrives together with the awaited result
            # is lost (asyncio.wait_for, inside the driver).
            if self.waits_long:
                self._task.cancel()
            await asyncio.wait([self._task], timeout=_CANCEL_AGAIN if self.waits_long else None)
        self._task = None

    def abandon(self) -> None:
        """Cancel it from another thread, or between two runs of its event loop."""
        if self._task is not None and not self._task.get_loop().is_closed():
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    async def in_parallel(self, *parts: Coroutine[Any, Any, None]) -> None:
        """Run parts of a turn in parallel. Return when all of them have ended. Raise the first error:
        a part that fails does not stop the others."""
        tasks = [asyncio.create_task(part, name=f"headway-{self.name}") for part in parts]
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
        errors = [error for task in tasks if (error := task.exception()) is not None]
        if errors:
            raise errors[0]

    async def _run(self) -> None:
        try:
            while not self.stopping:
                self._woken.clear()
                rest = await self._guarded_turn()
                self.turned_at = monotonic()
                await self._rest(rest)
        finally:
            await self.close()

    async def _guarded_turn(self) -> float | None:
        self.track.began()
        try:
            rest = await self.turn()
        except (DatabaseUnavailable, StandbyRefused) as fault:
            # During a failover the server may be a standby for a while.
            self.track.failed(fault, expected=True)
        except Exception as error:
            self.track.failed(error, expected=False)
        else:
            self.track.works()
            self._pause = _FIRST_PAUSE
            return rest
        # Jitter, so that the workers of a fleet do not all reconnect to a recovering server at once.
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), pause * random.uniform(0.5, 1.0))
        return 0

    async def _rest(self, seconds: float | None) -> None:
        # A turn that returns 0 has waited for the database, so other tasks have had their chance to run.
        if seconds != 0 and not self.stopping:
            timer = (
                None
                if seconds is None
                else asyncio.get_running_loop().call_later(seconds, self._woken.set)
            )
            await self._woken.wait()
            if timer is not None:
                timer.cancel()
