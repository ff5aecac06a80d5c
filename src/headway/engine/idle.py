"""Knowing that there is nothing left to do, for tests and scripts that drain a queue."""

from __future__ import annotations

from collections.abc import Callable

from headway.engine.jobs.settler import Settler
from headway.engine.running.executor import Executor
from headway.engine.service import Service
from headway.store.link import Link
from headway.store.statement import Statement

_LOOK_AGAIN = 0.02


class IdleWatch(Service):
    """Looks whenever this worker has nothing in hand, until the database has nothing either."""

    waits_long = True

    def __init__(
        self,
        link: Link,
        question: Callable[[], Statement[bool]],
        executor: Executor,
        settler: Settler,
        *,
        between: Callable[[], None],
        idle: Callable[[], None],
    ) -> None:
        """`between` is called before it looks again, `idle` once there is nothing left."""
        super().__init__()
        self._link = link
        self._question = question
        self._executor = executor
        self._settler = settler
        self._between = between
        self._idle = idle

    async def turn(self) -> float | None:
        await self._executor.idle()
        await self._settler.drained()
        if await self._link.run(self._question()):
            self._idle()
            return None
        self._between()
        return _LOOK_AGAIN

    async def close(self) -> None:
        await self._link.close()
