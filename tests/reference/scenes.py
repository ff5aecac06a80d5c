"""Situations that several of these tests begin with."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from headway import Headway
from tests.store.store import Store

NOWHERE = "postgresql://127.0.0.1:1/nowhere"
"""No server listens on port 1."""

OURS = "datname = current_database() and pid <> pg_backend_pid() and application_name like %s"
LISTENING = f"{OURS} and query like 'select pg_catalog.pg_notify(%%'"
"""A listener's last statement was the proof that it hears itself."""


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
