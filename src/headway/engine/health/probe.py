"""The database as a worker sees it: whether it answers, how fast, and how many jobs wait.

The probe asks only after a request. However many requests there are, it asks once at a time and at most
once per second. No request waits longer than `_TIMEOUT`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headway.core.clock import Clock, monotonic, wall
from headway.core.duration import in_words
from headway.core.finding import Finding, clock_finding, skew
from headway.core.info import Control, QueueMetrics
from headway.engine.service import Service, log
from headway.errors import HeadwayError, SchemaMismatch
from headway.store import migrate
from headway.store.connections.connect import Target
from headway.store.connections.engine_connection import EngineConnection
from headway.store.statements import controls, inspect

_TIMEOUT = 3.0
_FRESH = 1.0
_FIGURES_FRESH = 5.0
"""Figures of queues cost more than a ping, and scrapers ask for them less often."""


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    """The result of the last probe."""

    at: float
    reached: bool
    schema_error: str | None = None
    """Why the schema does not fit this library, or None if it does."""
    connected_in: float | None = None
    answered_in: float | None = None
    skew: float | None = None
    """How far the database's clock is ahead of this machine's, in seconds."""
    queues: Sequence[QueueMetrics] | None = None
    """The queues at `figures_at`, or None if they were not requested or could not be read."""
    controls: Sequence[Control] = ()
    """Pauses and limits of queues, tasks and keys."""
    figures_at: float = -math.inf

    @property
    def fits(self) -> bool:
        """Whether this worker can use the database."""
        return self.reached and self.schema_error is None


class DatabaseProbe(Service):
    """Probes the database on request, over a connection of its own."""

    waits_long = True  # after the stop no request needs its result

    def __init__(self, target: Target, clock: Clock) -> None:
        super().__init__()
        self._link = EngineConnection(target, timeout=_TIMEOUT)
        self._clock = clock
        self._probed = asyncio.Event()
        self._asked = False
        self._wants_figures = False
        self._last: DatabaseStatus | None = None

    async def status(self, *, with_figures: bool = False) -> DatabaseStatus:
        """Return the status of the database now, or of at most a second ago."""
        asked_at = monotonic()
        try:
            async with asyncio.timeout(_TIMEOUT):
                while (found := self._fresh(asked_at, with_figures)) is None:
                    self._asked, self._wants_figures = True, self._wants_figures or with_figures
                    self.wake()
                    await self._probed.wait()
                return found
        except TimeoutError:
            return DatabaseStatus(at=asked_at, reached=False)

    async def turn(self) -> float | None:
        if not self._asked:
            return None
        self._asked = False
        status = await self._probe()
        if self._last is not None and self._last.reached and not status.reached:
            log.warning("the health endpoint cannot reach the database")
        self._last = status
        probed, self._probed = self._probed, asyncio.Event()
        probed.set()
        return None

    async def close(self) -> None:
        await self._link.close()

    def cut(self) -> None:
        """Stop waiting for an answer."""
        self._link.cut()

    def _fresh(self, asked_at: float, with_figures: bool) -> DatabaseStatus | None:
        last = self._last
        if last is None or last.at < asked_at - _FRESH:
            return None
        lacks_figures = last.fits and last.figures_at < asked_at - _FIGURES_FRESH
        return None if with_figures and lacks_figures else last

    async def _probe(self) -> DatabaseStatus:
        wants_figures, self._wants_figures = self._wants_figures, False
        try:
            await self._link.verify()
            began, sent_at = monotonic(), wall()
            server = await self._link.run(inspect.server())
            took = monotonic() - began
        except SchemaMismatch as error:
            return DatabaseStatus(at=monotonic(), reached=True, schema_error=str(error))
        except HeadwayError:
            # The message may name hosts and users, so it is only for the log. The worker's own services
            # log the same fault.
            return DatabaseStatus(at=monotonic(), reached=False)
        last = self._last or DatabaseStatus(at=0.0, reached=False)
        status = DatabaseStatus(
            at=monotonic(),
            reached=True,
            connected_in=self._link.connected_in,
            answered_in=took,
            skew=skew(server.now, sent_at, took),
            queues=last.queues,
            controls=last.controls,
            figures_at=last.figures_at,
        )
        return await self._with_figures(status) if wants_figures else status

    async def _with_figures(self, status: DatabaseStatus) -> DatabaseStatus:
        now = self._clock.now()
        try:
            queues, rows = await self._link.run_all(inspect.metrics(None, now), controls.read(now))
        except HeadwayError as error:
            log.warning("the health endpoint could not read the figures of queues: %s", error)
            return replace(status, queues=None, controls=(), figures_at=monotonic())
        return replace(status, queues=queues, controls=rows, figures_at=monotonic())


def findings(status: DatabaseStatus, schema: str) -> list[Finding]:
    """Return findings for /readyz: without a database that fits, the worker cannot be ready."""
    if not status.reached:
        return [Finding("database", "wrong", "unreachable; see the worker's log")]
    found = [Finding("database", "ok", _reached(status))]
    if status.schema_error is not None:
        return [*found, Finding("schema", "wrong", status.schema_error)]
    found.append(Finding("schema", "ok", f"{schema}, version {migrate.newest()}"))
    return found if status.skew is None else [*found, clock_finding(status.skew)]


def late_queues(status: DatabaseStatus, max_wait: float) -> list[Finding]:
    """Return notes about open queues whose oldest ready job has waited too long.

    They are only notes: one worker is not to blame.
    """
    paused = {row.name for row in status.controls if row.kind == "queue" and row.paused}
    return [
        Finding(
            f"queue {queue.name}",
            "note",
            f"its oldest ready job has waited {in_words(age)}, longer than {in_words(max_wait)}",
        )
        for queue in status.queues or ()
        if queue.name not in paused and (age := queue.oldest_ready_age or 0.0) > max_wait
    ]


def _reached(status: DatabaseStatus) -> str:
    if status.answered_in is None or status.connected_in is None:
        return "answers"
    return (
        f"connected in {status.connected_in * 1000:.1f} ms, "
        f"answers in {status.answered_in * 1000:.1f} ms"
    )
