"""Claims and declarations one statement at a time, as the engine sends them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from headway import Headway, Limit
from headway.core.definition import Definition
from headway.core.info import ControlKind
from headway.store.rows import Claim
from headway.store.statements import controls, jobs
from tests.store.store import TASK, Asked, Store, ask, shares


def claim(
    store: Store,
    worker: int,
    *asks: Asked,
    queues: Sequence[str] = ("q",),
    tasks: Sequence[str] = (),
    conn: psycopg.Connection[Any] | None = None,
) -> list[Claim]:
    """A claim behind the locks of the limits that it may meet."""
    conn = conn or store.conn
    with conn.transaction():
        store.run(controls.lock(queues, tasks, store.now), conn)
        return store.run(jobs.claim(worker, shares(asks or [ask()]), store.now), conn)


def alone(task: str = TASK, queue: str = "q", priority: int = 0) -> Asked:
    """The line of a task that has a limit."""
    return ask(queue, priority, tasks=[task], alone=True)


def declare(store: Store, limit: Limit | None) -> int:
    """Declare this limit as a worker does. Return how much of it was new."""
    with store.conn.transaction():
        news = store.run(controls.declare(store.target, definitions(limit)))
        store.run(controls.mark_limited())
    return news


def reset(store: Store, name: str, kind: ControlKind = "queue") -> bool:
    """Back to what code declares, as `hw.controls.reset` does it."""
    with store.conn.transaction():
        was_set = store.run(controls.reset_limit(store.target, kind, name))
        store.run(controls.mark_limited())
    return was_set


def definitions(limit: Limit | None) -> list[Definition]:
    hw = Headway("postgresql://nowhere")

    @hw.task(name=TASK, queue="q", limit=limit)
    async def resize(n: int = 0) -> None: ...

    return resize.definitions()
