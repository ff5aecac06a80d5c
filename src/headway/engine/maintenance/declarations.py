"""What the code declares of its tasks, limits and schedules, written down for the fleet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from headway.core.clock import Clock
from headway.core.config import CleanUp
from headway.core.definition import Definition
from headway.engine.service import Service, log
from headway.errors import DatabaseUnavailable
from headway.store import controls, fleet, schedules
from headway.store.faults import is_held_up
from headway.store.link import Link
from headway.store.schedules import Put
from headway.store.statement import Statement

_CLEAN_EVERY = 60.0


@dataclass(frozen=True, slots=True)
class Declared:
    """What an app's code says of schedules."""

    schedules: Sequence[Put] = ()
    owner: str = ""
    """The app's name."""
    clean_up: CleanUp = "stale"
    """What becomes of those that were declared and are not any more."""
    tasks: Collection[str] = ()
    """The tasks and flows that the app knows."""

    @property
    def names(self) -> list[str]:
        return [schedule.name for schedule in self.schedules]


class Declarations(Service):
    """Writes down what the code declares, and removes what it no longer declares."""

    def __init__(
        self, link: Link, clock: Clock, definitions: Collection[Definition], declared: Declared
    ) -> None:
        super().__init__()
        self._link = link
        self._clock = clock
        self._definitions = definitions
        self._declared = declared
        self._held_up = False
        self._worker_id = 0
        self._registered = False

    @property
    def names(self) -> list[str]:
        return self._declared.names

    async def declare(self) -> None:
        """Declare everything at the start of a worker.

        A limit or schedule that somebody's open transaction has locked is declared later: no worker
        waits for a stranger (G14).
        """
        tasks = fleet.declare(self._definitions)
        try:
            # Together: no task is known without its limits.
            await self._link.run_all(tasks, *self._limits())
        except DatabaseUnavailable as error:
            self._hold_up(error)
            await self._link.run(tasks)
        try:
            await self._put_schedules()
        except DatabaseUnavailable as error:
            self._hold_up(error)

    def registered(self, worker_id: int) -> None:
        """The worker is known to the fleet by this id, for the first time or anew."""
        if worker_id not in (0, self._worker_id):
            self._worker_id, self._registered = worker_id, True
            self.wake()

    async def turn(self) -> float | None:
        if self._held_up:
            await self._link.run_all(*self._limits())
            await self._put_schedules()
            self._held_up = False
            log.info("what the code declares of limits and schedules holds now")
        if self._worker_id == 0:
            return None
        if self._registered:
            # Until it was known, or while it was thought lost, another may have removed what only this
            # worker declares.
            await self._put(missing=True)
            self._registered = False
        if self._declared.clean_up != "stale":
            return None
        await self._clean(stale=True)
        return _CLEAN_EVERY

    def _limits(self) -> tuple[Statement[int], Statement[int]]:
        return controls.declare(self._link.target, self._definitions), controls.mark_limited()

    def _hold_up(self, error: DatabaseUnavailable) -> None:
        if not is_held_up(error):
            raise error
        self._held_up = True
        log.warning(
            "a limit or schedule of the code is locked by somebody's open transaction; what the code "
            "declares of it is written when that has ended"
        )

    async def _put_schedules(self) -> None:
        await self._put(missing=False)
        if self._declared.clean_up == "all":
            await self._clean(stale=False)

    async def _put(self, *, missing: bool) -> None:
        if not self._declared.schedules:
            return
        taken = await self._link.run(
            schedules.put(
                self._link.target,
                self._declared.schedules,
                owner=self._declared.owner,
                declared=True,
                missing=missing,
                now=self._clock.now(),
            )
        )
        for name in sorted(name for name, others in taken.items() if others and not missing):
            log.warning(
                "schedule %s is another app's, or was put at run time: what the code declares of it "
                "is not used; give one of them another name, or remove it", name,
            )  # fmt: skip

    async def _clean(self, *, stale: bool) -> None:
        declared = self._declared
        removed = await self._link.run(
            schedules.clean(
                declared.owner, declared.tasks, declared.names, stale=stale, now=self._clock.now()
            )
        )
        if removed:
            log.info("removed schedules that no code declares any more: %s", ", ".join(removed))
