"""What the database looks like from a worker, for whoever asks: reached, how fast, what waits in it.

Nothing is asked before somebody wants to know, and however many want to know, it is asked once at a
time and at most once a second. Nobody waits for an answer longer than `_PATIENCE`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from headway.core.clock import Clock, monotonic, wall
from headway.core.duration import in_words
from headway.core.finding import Finding
from headway.engine.service import Service, log
from headway.errors import HeadwayError, SchemaMismatch
from headway.store import controls, inspect, migrate
from headway.store.connect import Target
from headway.store.controls import ControlRow
from headway.store.link import Link
from headway.store.rows import QueueMetrics

_PATIENCE = 3.0
_FRESH = 1.0
_FIGURES_FRESH = 5.0
"""Figures of queues cost more than a ping, and nobody scrapes them that often."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The database when it was last looked at, or could not be."""

    at: float
    reached: bool
    schema_error: str | None = None
    """Why its schema does not fit this library, if it does not."""
    connected_in: float | None = None
    answered_in: float | None = None
    skew: float | None = None
    """How far the database's clock is ahead of this machine's, in seconds."""
    queues: Sequence[QueueMetrics] | None = None
    """What waits in them, as it was at `figures_at`; none if nobody asked or it could not be said."""
    controls: Sequence[ControlRow] = ()
    """Their pauses and limits, and those of tasks and keys."""
    figures_at: float = -math.inf

    @property
    def fits(self) -> bool:
        """Whether this worker could use it."""
        return self.reached and self.schema_error is None


class Lookout(Service):
    """Looks at the database when it is asked to, over a connection of its own."""

    waits_long = True  # when it stops, nobody wants to know any more

    def __init__(self, target: Target, clock: Clock) -> None:
        super().__init__()
        self._link = Link(target, patience=_PATIENCE)
        self._clock = clock
        self._looked = asyncio.Event()
        self._asked = False
        self._wants_figures = False
        self._last: Sight | None = None

    async def sight(self, *, with_figures: bool = False) -> Sight:
        """The database as it is now, or was a moment ago."""
        asked_at = monotonic()
        try:
            async with asyncio.timeout(_PATIENCE):
                while (found := self._fresh(asked_at, with_figures)) is None:
                    self._asked, self._wants_figures = True, self._wants_figures or with_figures
                    self.wake()
                    await self._looked.wait()
                return found
        except TimeoutError:
            return Sight(at=asked_at, reached=False)

    async def turn(self) -> float | None:
        if not self._asked:
            return None
        self._asked = False
        sight = await self._look()
        if self._last is not None and self._last.reached and not sight.reached:
            log.warning("the health endpoint cannot reach the database")
        self._last = sight
        looked, self._looked = self._looked, asyncio.Event()
        looked.set()
        return None

    async def close(self) -> None:
        await self._link.close()

    def cut(self) -> None:
        """Waits no longer for an answer that is under way."""
        self._link.cut()

    def _fresh(self, asked_at: float, with_figures: bool) -> Sight | None:
        last = self._last
        if last is None or last.at < asked_at - _FRESH:
            return None
        lacks_figures = last.fits and last.figures_at < asked_at - _FIGURES_FRESH
        return None if with_figures and lacks_figures else last

    async def _look(self) -> Sight:
        wants_figures, self._wants_figures = self._wants_figures, False
        try:
            await self._link.verify()
            began, sent_at = monotonic(), wall()
            server = await self._link.run(inspect.server())
            took = monotonic() - began
        except SchemaMismatch as error:
            return Sight(at=monotonic(), reached=True, schema_error=str(error))
        except HeadwayError:
            # What it says may name hosts and users: that is for the worker's log, whose own services
            # meet the same fault.
            return Sight(at=monotonic(), reached=False)
        last = self._last or Sight(at=0.0, reached=False)
        sight = Sight(
            at=monotonic(),
            reached=True,
            connected_in=self._link.connected_in,
            answered_in=took,
            skew=skew(server.now, sent_at, took),
            queues=last.queues,
            controls=last.controls,
            figures_at=last.figures_at,
        )
        return await self._with_figures(sight) if wants_figures else sight

    async def _with_figures(self, sight: Sight) -> Sight:
        now = self._clock.now()
        try:
            queues, said = await self._link.run_all(inspect.metrics(None, now), controls.read(now))
        except HeadwayError as error:
            log.warning("the health endpoint has no figures of queues: %s", error)
            return replace(sight, queues=None, controls=(), figures_at=monotonic())
        return replace(sight, queues=queues, controls=said, figures_at=monotonic())


def skew(server: datetime, sent_at: datetime, took: float) -> float:
    """How far a server's clock is ahead of this machine's, in seconds; it was read half way.

    >>> from datetime import UTC
    >>> noon = datetime(2040, 1, 1, 12, tzinfo=UTC)
    >>> skew(noon + timedelta(seconds=2), noon, took=1.0)
    1.5
    """
    return (server - sent_at - timedelta(seconds=took / 2)).total_seconds()


def findings(sight: Sight, schema: str) -> list[Finding]:
    """What it means for the worker: without a database that fits it cannot be ready."""
    if not sight.reached:
        return [Finding("database", "wrong", "it cannot be reached; the worker's log says more")]
    found = [Finding("database", "ok", _reached(sight))]
    if sight.schema_error is not None:
        return [*found, Finding("schema", "wrong", sight.schema_error)]
    found.append(Finding("schema", "ok", f"{schema}, version {migrate.newest()}"))
    return found if sight.skew is None else [*found, clock_finding(sight.skew)]


def late_queues(sight: Sight, max_wait: float) -> list[Finding]:
    """Open queues whose oldest ready job has waited too long: worth knowing, no fault of one worker."""
    paused = {said.name for said in sight.controls if said.kind == "queue" and said.paused}
    return [
        Finding(
            f"queue {queue.name}",
            "note",
            f"the oldest ready for {in_words(age)}, longer than {in_words(max_wait)}",
        )
        for queue in sight.queues or ()
        if queue.name not in paused and (age := queue.oldest_ready_age or 0.0) > max_wait
    ]


_CLOCKS_APART = 5.0


def clock_finding(apart: float) -> Finding:
    """How far the database's clock is from this machine's; it decides, so this is a note at worst."""
    if abs(apart) < _CLOCKS_APART:
        return Finding("clock", "ok", f"{in_words(abs(apart))} from this machine's")
    side = "ahead of" if apart > 0 else "behind"
    return Finding(
        "clock",
        "note",
        f"{in_words(abs(apart))} {side} this machine's; jobs go by the database's clock all the same",
    )


def _reached(sight: Sight) -> str:
    if sight.answered_in is None or sight.connected_in is None:
        return "answers"
    return (
        f"connected in {sight.connected_in * 1000:.1f} ms, "
        f"answers in {sight.answered_in * 1000:.1f} ms"
    )
