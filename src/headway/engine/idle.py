"""Finding out that there is nothing left to do, for tests and scripts that drain a queue."""

from __future__ import annotations

from collections.abc import Callable

from headway.engine.jobs.settler import Settler
from headway.engine.maintenance.services import Maintenance
from headway.engine.running.executor import Executor
from headway.engine.service import Service
from headway.store.connections.engine_connection import EngineConnection
from headway.store.statement import Statement

_ASK_AGAIN = 0.02


class IdleWatch(Service):
    """Asks the database whenever this worker has no job, until the database has none either."""

    waits_long = True

    def __init__(
        self,
        connection: EngineConnection,
        is_idle: Callable[[], Statement[bool]],
        executor: Executor,
        settler: Settler,
        maintenance: Maintenance,
        *,
        on_idle: Callable[[], None],
    ) -> None:
        """`on_idle` is called once there is nothing left."""
        super().__init__()
        self._connection = connection
        self._is_idle = is_idle
        self._executor = executor
        self._settler = settler
        self._maintenance = maintenance
        self._on_idle = on_idle

    async def turn(self) -> float | None:
        await self._executor.idle()
        await self._settler.drained()
        if await self._connection.run(self._is_idle()):
            self._on_idle()
            return None
        self._maintenance.wake()
        return _ASK_AGAIN

    async def close(self) -> None:
        await self._connection.close()
