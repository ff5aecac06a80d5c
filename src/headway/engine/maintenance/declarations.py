"""Declarations: the tasks, limits and schedules of the code, written to the database for the fleet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from headway.core.clock import Clock
from headway.core.config import CleanUp
from headway.core.definition import Definition
from headway.engine.service import Service, log
from headway.errors import DatabaseUnavailable
from headway.store.connections.engine_connection import EngineConnection
from headway.store.faults import is_held_up
from headway.store.statement import Statement
from headway.store.statements import controls, fleet, schedules
from headway.store.statements.schedules import Put

_CLEAN_EVERY = 60.0


@dataclass(frozen=True, slots=True)
class DeclaredByCode:
    """The schedules that an app's code declares."""

    schedules: Sequence[Put] = ()
    owner: str = ""
    """The app's name."""
    clean_up: CleanUp = "stale"
    """Which schedules to remove when no code declares them any more."""
    tasks: Collection[str] = ()
    """The names of the app's tasks and flows."""

    @property
    def names(self) -> list[str]:
        return [schedule.name for schedule in self.schedules]


class Declarations(Service):
    """Writes the declarations, and removes schedules that are no longer declared."""

    def __init__(
        self,
        connection: EngineConnection,
        clock: Clock,
        definitions: Collection[Definition],
        declared: DeclaredByCode,
    ) -> None:
        super().__init__()
        self._connection = connection
        self._clock = clock
        self._definitions = definitions
        self._declared = declared
        self._postponed = False
        self._worker_id = 0
        self._registered = False

    @property
    def names(self) -> list[str]:
        return self._declared.names

    async def declare(self) -> None:
        """Declare everything when a worker starts.

        A limit or schedule that an open transaction has locked is declared later: no worker waits
        for a stranger (G14).
        """
        tasks = fleet.declare(self._definitions)
        try:
            # In one transaction: no task is known without its limits.
            await self._connection.run_all(tasks, *self._limits())
        except DatabaseUnavailable as error:
            self._postpone(error)
            await self._connection.run(tasks)
        try:
            await self._put_schedules()
        except DatabaseUnavailable as error:
            self._postpone(error)

    def registered(self, worker_id: int) -> None:
        """The worker has registered under this id."""
        if worker_id not in (0, self._worker_id):
            self._worker_id, self._registered = worker_id, True
            self.wake()

    async def turn(self) -> float | None:
        if self._postponed:
            await self._connection.run_all(*self._limits())
            await self._put_schedules()
            self._postponed = False
            log.info("declared the limits and schedules that were locked before")
        if self._worker_id == 0:
            return None
        if self._registered:
            # Before it registered, or while it seemed lost, another worker may have removed schedules
            # that only this one declares.
            await self._put(missing=True)
            self._registered = False
        if self._declared.clean_up != "stale":
            return None
        await self._clean(stale=True)
        return _CLEAN_EVERY

    def _limits(self) -> tuple[Statement[int], Statement[int]]:
        return controls.declare(self._connection.target, self._definitions), controls.mark_limited()

    def _postpone(self, error: DatabaseUnavailable) -> None:
        if not is_held_up(error):
            raise error
        self._postponed = True
        log.warning(
            "cannot declare limits and schedules yet: an open transaction has locked one of them; "
            "trying again until it ends"
        )

    async def _put_schedules(self) -> None:
        await self._put(missing=False)
        if self._declared.clean_up == "all":
            await self._clean(stale=False)

    async def _put(self, *, missing: bool) -> None:
        if not self._declared.schedules:
            return
        taken = await self._connection.run(
            schedules.put(
                self._connection.target,
                self._declared.schedules,
                owner=self._declared.owner,
                declared=True,
                missing=missing,
                now=self._clock.now(),
            )
        )
        for name in sorted(name for name, others in taken.items() if others and not missing):
            log.warning(
                "schedule %s of the code is ignored: another app declares it, or it was put at run time; "
                "rename or remove one of them", name,
            )  # fmt: skip

    async def _clean(self, *, stale: bool) -> None:
        declared = self._declared
        removed = await self._connection.run(
            schedules.clean(
                declared.owner, declared.tasks, declared.names, stale=stale, now=self._clock.now()
            )
        )
        if removed:
            log.info("removed schedules that no code declares any more: %s", ", ".join(removed))
