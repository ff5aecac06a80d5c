"""Firing a schedule whose task has a unique key that someone's open transaction has taken."""

from __future__ import annotations

import pytest
from psycopg.errors import LockNotAvailable

from headway.store import jobs
from tests.store.store import Store, engine_connection, new_job
from tests.store.test_schedules import due, fire, kept, put


def test_a_unique_key_in_an_open_transaction_is_not_waited_for_long(store: Store) -> None:
    """Whatever the session's own patience: without one of its own, this would wait until it is ended."""
    put(store, of_job={"unique_key": "nightly"})
    store.advance(3600)
    row = due(store)
    with engine_connection(store.dsn) as holder, engine_connection(store.dsn) as firer:
        firer.execute("set lock_timeout = 0")
        firer.execute("set statement_timeout = '60s'")
        with holder.transaction():
            taken = jobs.enqueue(store.target, [new_job(unique_key="nightly")], store.now)
            store.run(taken, holder)
            with pytest.raises(LockNotAvailable):
                store.run(fire(store, row, store.now), firer)
        assert firer.execute("show lock_timeout").fetchone() == ("0",), "for that statement only"
    assert kept(store)["done_until"] == row.done_until, "it is still to be fired"
