"""Firing a schedule that someone else is at, or whose job before lives: nobody is waited for long."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.errors import LockNotAvailable

from headway.store.statements import jobs
from tests.store.aside import Aside
from tests.store.store import Store, engine_connection, new_job
from tests.store.test_schedules import due, fire, kept, put


def test_a_unique_key_in_an_open_transaction_is_not_waited_for_long(store: Store) -> None:
    """The session's own time limit does not matter. Without one of its own, this would wait for ever."""
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


@pytest.mark.parametrize("dies", [False, True])
def test_a_firer_leaves_a_row_that_another_has_and_looks_again(store: Store, dies: bool) -> None:
    """It waits for nobody: other schedules are due, too."""
    put(store)
    store.advance(3600)
    row = due(store)
    with store.conn.transaction():
        assert store.run(fire(store, row, store.now)) == 1
        assert Aside(store, fire(store, row, store.now)).answer() is None
        if dies:
            raise psycopg.Rollback
    assert store.run(fire(store, row, store.now)) == (1 if dies else None)
    assert store.count("job") == 1


def test_a_firer_does_not_wait_for_a_change_nor_fire_what_it_read(store: Store) -> None:
    put(store, spec="@hourly")
    store.advance(3600)
    row = due(store)
    with store.conn.transaction():
        put(store, spec="@daily")
        assert Aside(store, fire(store, row, store.now)).answer() is None
    assert store.run(fire(store, row, store.now)) is None
    assert store.count("job") == 0


@pytest.mark.parametrize("lives", [True, False])
def test_with_skip_the_job_before_counts_whatever_rule_it_was_made_under(
    store: Store, lives: bool
) -> None:
    """A live change: that job does not have the schedule's unique key."""
    put(store)
    store.advance(3600)
    assert store.run(fire(store, due(store), store.now)) == 1
    before = kept(store)
    put(store, overlap="skip")
    if not lives:
        store.eyes.execute("delete from job")
    store.advance(3600)
    assert store.run(fire(store, due(store), store.now)) == (0 if lives else 1)
    after = kept(store)
    assert after["done_until"] == store.now
    if lives:
        assert (after["last_at"], after["last_job"]) == (before["last_at"], before["last_job"])
