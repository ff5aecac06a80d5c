"""Situations that several of these tests begin with."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from headway import Flow, Headway, Next
from headway.store import jobs
from headway.store.rows import Promotion
from tests.store.store import Store

NOWHERE = "postgresql://127.0.0.1:1/nowhere"
"""No server listens on port 1."""

OURS = "datname = current_database() and pid <> pg_backend_pid() and application_name like %s"
LISTENING = f"{OURS} and query like 'select pg_notify(%%'"
"""A listener's last statement was the proof that it hears itself."""


def promote(store: Store) -> Promotion:
    return store.run(jobs.promote(store.target, None, 100, store.now))


def rescue(store: Store) -> tuple[int, int]:
    return store.rescue()


ONE_CRASH: dict[str, Any] = {"options": {"retry": {"max_crashes": 1}}}
"""A job that fails when its worker is lost for the first time."""


def lose(store: Store) -> int:
    """Lets the lease of every worker run out, takes their jobs back and waits until the back-off of
    those that run again is over; the id of a new worker."""
    store.advance(31)
    rescue(store)
    store.advance(4)
    promote(store)
    return store.register()


def give_up(store: Store) -> None:
    """Has the fleet give up every worker, and take its jobs back before it can know."""
    with store.conn.transaction():
        lapse = "update {}.worker set expires_at = now() - interval '1 second'"
        store.conn.execute(sql.SQL(lapse).format(sql.Identifier(store.schema)))
        rescued = store.run(jobs.rescue(store.target, 100, None))
        assert any(job.came_to == "r" for job in rescued)


def refuse(store: Store, table: str, event: str) -> None:
    """Has the server refuse a kind of write from now on."""
    store.eyes.execute(
        "create function refuse() returns trigger language plpgsql as "
        "$$ begin raise exception 'not today'; end $$"
    )
    trigger = f"create trigger refuse before {event} on {{}} for each row execute function refuse()"
    store.eyes.execute(sql.SQL(trigger).format(sql.Identifier(table)))


def backends(
    db: psycopg.Connection[Any], application: str, condition: str = LISTENING
) -> list[int]:
    """The processes of the server behind an application's connections; by default the listening ones."""
    query: Any = f"select pid from pg_stat_activity where {condition}"
    return [pid for (pid,) in db.execute(query, (application,)).fetchall()]


def work_of(hw: Headway) -> Any:
    """A task for tests to which it does not matter what runs."""

    @hw.task
    async def work(number: int = 0) -> int:
        return number

    return work


def two_steps(hw: Headway) -> Flow[None]:
    """A flow whose second step waits in a queue of its own while only the first one's is served."""
    flow = hw.flow("two")

    @flow.step
    async def first(number: int) -> Next:
        return second.next(number=number + 1)

    @flow.step(queue="other")
    async def second(number: int) -> int:
        return number * 10

    return flow
