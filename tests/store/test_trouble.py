"""The trouble of a worker, in its row."""

from __future__ import annotations

from headway.store.connections.connect import Target
from headway.store.connections.once import run_once
from headway.store.statements import fleet, inspect
from tests.store.store import Store, engine_connection


def _trouble(store: Store, worker: int) -> str | None:
    (row,) = [row for row in store.run(inspect.workers(store.now)) if row.id == worker]
    return row.trouble


def test_g7_a_heartbeat_says_what_is_wrong_and_the_next_that_nothing_is(store: Store) -> None:
    worker = store.register()
    assert _trouble(store, worker) is None
    store.run(fleet.heartbeat(worker, 30, store.now, trouble="job_loop has failed for 45s"))
    assert _trouble(store, worker) == "job_loop has failed for 45s"
    store.run(fleet.heartbeat(worker, 30, store.now))
    assert _trouble(store, worker) is None


def test_b7_a_thread_notes_it_over_a_connection_of_its_own(store: Store) -> None:
    worker, other = store.register(), store.register()
    target = Target(store.dsn, store.schema)
    assert run_once(target, fleet.note_trouble(worker, "blocked"), 5.0) is True
    assert (_trouble(store, worker), _trouble(store, other)) == ("blocked", None)
    assert run_once(target, fleet.note_trouble(10**9, "blocked"), 5.0) is False


def test_g14_a_note_waits_for_nobody(store: Store) -> None:
    worker = store.register()
    with engine_connection(store.dsn) as conn, conn.transaction():
        conn.execute(f'select 1 from "{store.schema}".worker for update')
        assert (
            run_once(Target(store.dsn, store.schema), fleet.note_trouble(worker, "x"), 5.0) is False
        )
    assert _trouble(store, worker) is None
