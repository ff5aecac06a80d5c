"""Headway in FastAPI and Starlette: a lifespan, and a dependency to enqueue in a request's transaction.

`lifespan` works with every ASGI framework that takes one, and imports none of them.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack

from headway._api.new_job import CallOptions
from headway.app import Headway
from headway.core.config import WorkerSettings
from headway.engine.worker import Worker
from headway.task import BoundTask

P = ParamSpec("P")
R = TypeVar("R")

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]

log = logging.getLogger("headway.worker")


def lifespan(
    hw: Headway, *, worker: WorkerSettings | None = None, inner: Lifespan | None = None
) -> Lifespan:
    """Return a lifespan that opens the app's connections at start and closes them at the end.

    - `worker`: settings of a worker to run inside, `{}` for the configured ones. It takes no signals.
      When the server stops, the worker drains within its grace.
    - `inner`: a lifespan of your own. It begins after this one and ends before it.

    >>> app = FastAPI(lifespan=lifespan(hw, worker={"concurrency": 10}))    # doctest: +SKIP
    """

    @asynccontextmanager
    async def run(app: Any) -> AsyncGenerator[Any]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(hw)
            if worker is not None:
                await stack.enter_async_context(_working(hw.worker(**worker)))
            yield None if inner is None else await stack.enter_async_context(inner(app))

    return run


@asynccontextmanager
async def _working(worker: Worker) -> AsyncGenerator[None]:
    """Run a worker in the block. If it fails, the log says so and requests go on."""
    running = asyncio.create_task(worker.run())
    running.add_done_callback(_log_failure)
    try:
        yield
    finally:
        worker.stop()
        await asyncio.wait([running])


def _log_failure(ended: asyncio.Task[Any]) -> None:
    if not ended.cancelled() and (error := ended.exception()) is not None:
        log.error("the worker inside this server has ended", exc_info=error)


class Usable(Protocol[P, R]):
    """A task or a flow."""

    def using(self, **options: Unpack[CallOptions]) -> BoundTask[P, R]: ...


class InTransaction:
    """Enqueues in the transaction of one request. `in_transaction` makes one for each request."""

    def __init__(self, conn: Any) -> None:
        self.conn = conn
        """The session or connection of the request."""

    def __call__(self, task: Usable[P, R], **options: Unpack[CallOptions]) -> BoundTask[P, R]:
        """Return the task with this transaction, and with these options of a call.

        >>> await jobs(welcome, delay="10m").enqueue(user_id=1)             # doctest: +SKIP
        """
        return task.using(**{**options, "conn": self.conn})


def in_transaction(get_conn: Callable[..., Any]) -> Any:
    """Return a FastAPI dependency on the session that `get_conn` gives to the request.

    >>> Jobs = Annotated[InTransaction, in_transaction(get_session)]         # doctest: +SKIP
    >>> async def sign_up(session: Session, jobs: Jobs) -> None:             # doctest: +SKIP
    ...     session.add(user)
    ...     await session.flush()
    ...     await jobs(welcome).enqueue(user_id=user.id)
    ...     await session.commit()
    """
    depends: Any = importlib.import_module("fastapi").Depends

    def of_request(conn: Any = depends(get_conn)) -> InTransaction:  # noqa: B008
        return InTransaction(conn)

    return depends(of_request)
