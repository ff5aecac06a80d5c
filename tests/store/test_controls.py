"""The statements of people about queues, tasks and keys: pauses and limits."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from headway import Limit
from headway.core.info import Control
from headway.store.statements import controls, fleet, jobs
from tests.limits.by_hand import alone, claim, declare, reset
from tests.store.store import NOW, TASK, Store, ask, engine_connection


def test_pausing_again_keeps_since_when(store: Store) -> None:
    assert store.pause("mail", actor="ada", reason="provider down") == NOW
    store.advance(60)
    assert store.pause("mail", actor="bob", reason="still down", until=90.0) == NOW
    (row,) = store.run(controls.read(store.now))
    assert (row.kind, row.name, row.paused, row.paused_for) == ("queue", "mail", True, 90.0)
    assert (row.paused_at, row.paused_by, row.pause_reason) == (NOW, "bob", "still down")
    assert row.paused_until == NOW + timedelta(seconds=150)


def test_a_pause_that_ended_by_itself_is_none(store: Store) -> None:
    store.pause("mail", until=NOW + timedelta(seconds=60))
    store.advance(60)
    (row,) = store.run(controls.read(store.now))
    assert not row.paused
    assert store.resume("mail") is False
    assert store.pause("mail") == store.now, "a new one begins at its own moment"


def test_resuming_notifies_those_that_wait(store: Store) -> None:
    queue = f"mail {uuid4()}"
    store.pause(queue)
    with store.listening() as heard:
        assert store.resume(queue) is True
        assert heard() == ["control"]
        assert store.resume(queue) is False
        assert store.resume("never paused") is False
        assert heard() == []
    assert store.run(controls.read(store.now)) == [], "nothing is left of it"
    store.limit(queue, concurrency=3)
    store.pause(queue)
    assert store.resume(queue) is True
    (row,) = store.run(controls.read(store.now))
    assert (row.paused_at, row.paused_by, row.pause_reason) == (None, None, None)
    assert row.concurrency == 3


def test_a_pause_that_is_over_is_forgotten_unless_something_else_is_said(store: Store) -> None:
    for name in ("bare", "limited", "goes on"):
        store.pause(name, until=None if name == "goes on" else 60.0)
    store.limit("limited", rate="1/s")
    store.run(fleet.clean_up(store.now))
    assert store.count("control") == 3
    store.advance(60)
    store.run(fleet.clean_up(store.now))
    rows = store.run(controls.read(store.now))
    assert {row.name: row.paused for row in rows} == {"limited": False, "goes on": True}


@pytest.mark.parametrize("named", ["flow", "flow/two"])
def test_a_pause_of_a_flow_is_one_of_all_its_steps(store: Store, worker: int, named: str) -> None:
    for step in ("one", "two"):
        store.enqueue(task="flow", step=step)
    store.enqueue(task="flower")
    store.pause(named, "task")
    asked = ask(tasks=["flow/one", "flow/two", "flower"])
    taken = {(one.task, one.step) for one in store.claim(worker, asked)}
    assert taken == {("flower", "")} | ({("flow", "one")} if named == "flow/two" else set())
    assert store.resume(named, "task") is True
    assert len(store.claim(worker, asked)) == 3 - len(taken)


def test_a_pause_of_a_key_stops_what_is_ready_and_lets_nothing_in(
    store: Store, worker: int
) -> None:
    for key in ("acme", "acme", "zeta", None):
        store.enqueue(key=key)
    store.admit()
    store.enqueue(key="late")
    store.pause("acme", "key")
    store.pause("late", "key")
    assert {one.key for one in store.claim(worker)} == {"zeta", None}
    assert store.admit() == 0
    assert {line.key: line.room for line in store.run(jobs.lines("", 9, store.now))} == {
        "acme": False,
        "late": False,
    }
    store.resume("late", "key")
    assert store.admit() == 1
    assert [one.key for one in store.claim(worker)] == ["late"]


def test_who_admits_under_a_paused_key_hears_when_the_pause_ends(store: Store) -> None:
    store.enqueue(key="acme")
    store.pause("acme", "key", until=90.0)
    store.advance(30)
    assert store.run(jobs.admit(store.target, ["acme"], store.now)).room_in == {"acme": 60.0}
    assert store.run(jobs.lines("", 9, store.now)) == [("acme", False, 60.0)]
    store.pause("acme", "key")
    assert store.run(jobs.admit(store.target, ["acme"], store.now)).room_in == {}
    assert store.run(jobs.lines("", 9, store.now)) == [("acme", False, None)]
    store.pause("acme", "key", until=90.0)
    store.advance(90)
    assert store.run(jobs.lines("", 9, store.now)) == [("acme", True, None)]
    assert store.admit("acme") == 1


def test_a_token_that_comes_after_the_end_of_a_pause_is_waited_for(store: Store) -> None:
    declare(store, Limit(key=lambda n: str(n), rate="1/min", burst=1))
    for _ in range(2):
        store.enqueue(key=f"{TASK}/acme", key_limit=0)
    store.admit()
    assert len(store.claim(store.register())) == 1
    store.admit()
    store.pause(f"{TASK}/acme", "key", until=10.0)
    ((_, room, token_in),) = store.run(jobs.lines("", 9, store.now))
    assert (room, token_in) == (False, 60.0)


def test_what_is_paused_or_shut_is_idle(store: Store) -> None:
    def idle() -> bool:
        return store.run(jobs.idle(["q"], [TASK], store.now))

    store.enqueue(key="acme")
    assert not idle()
    for kind, name in (("queue", "q"), ("task", TASK), ("key", "acme")):
        store.pause(name, kind, until=60.0)  # type: ignore[arg-type]
        assert idle(), kind
        store.resume(name, kind)  # type: ignore[arg-type]
        assert not idle()
    for kind, name in (("queue", "q"), ("task", TASK)):
        store.limit(name, kind, concurrency=0)  # type: ignore[arg-type]
        assert idle(), kind
        store.limit(name, kind)  # type: ignore[arg-type]
        assert not idle()


# -- limits that code declares, and those that people set ---------------------------------------------


def _row(store: Store, kind: str = "task", name: str = TASK) -> Control:
    rows = store.run(controls.read(store.now))
    (row,) = [row for row in rows if (row.kind, row.name) == (kind, name)]
    return row


def _numbers(row: Control) -> tuple[object, ...]:
    return row.concurrency, row.rate, row.burst


def test_what_a_person_said_holds_against_what_code_declares(store: Store) -> None:
    assert declare(store, Limit(concurrency=5, rate="20/s")) == 1
    assert _numbers(_row(store)) == (5, 20.0, 2)
    assert declare(store, Limit(concurrency=5, rate="20/s")) == 0, "no news"
    store.limit(TASK, "task", concurrency=1)
    assert declare(store, Limit(concurrency=7)) == 1
    row = _row(store)
    assert _numbers(row) == (1, None, None)
    assert (row.changed_at, row.changed_by) == (NOW, "ada")
    assert row.declared == {"concurrency": 7, "rate": None, "burst": None}
    assert reset(store, TASK, "task") is True
    assert _numbers(_row(store)) == (7, None, None)
    assert _row(store).changed_at is None
    assert reset(store, TASK, "task") is False


def test_what_code_no_longer_declares_is_no_limit(store: Store, worker: int) -> None:
    store.enqueue()
    declare(store, Limit(concurrency=1))
    assert store.claim(worker) == []
    assert declare(store, None) == 1
    assert declare(store, None) == 0
    assert len(store.claim(worker)) == 1


def test_a_limit_that_becomes_one_by_key_is_none_of_the_task(store: Store, worker: int) -> None:
    store.enqueue()
    declare(store, Limit(concurrency=1))
    assert declare(store, Limit(key=lambda n: str(n), concurrency=2)) == 2
    assert not _row(store).limited
    assert _numbers(_row(store, "keys")) == (2, None, None)
    assert len(store.claim(worker)) == 1


def test_a_person_can_lift_what_code_declares(store: Store, worker: int) -> None:
    for _ in range(5):
        store.enqueue()
    declare(store, Limit(concurrency=1))
    store.limit(TASK, "task")
    assert declare(store, Limit(concurrency=2)) == 1
    assert len(store.claim(worker)) == 5


def test_a_row_that_says_nothing_goes(store: Store) -> None:
    store.limit("q", concurrency=1)
    store.pause("q")
    assert reset(store, "q") is True
    assert _row(store, "queue", "q").paused, "the pause has nothing to do with it"
    store.limit("mail", concurrency=1)
    assert reset(store, "mail") is True
    assert [row.name for row in store.run(controls.read(store.now))] == ["q"]


def test_everyone_hears_of_a_change(store: Store) -> None:
    with store.listening() as heard:
        store.limit("q", concurrency=1)
        reset(store, "q")
        store.pause("q")
        declare(store, Limit(concurrency=1))
        assert heard() == ["control"] * 4
        declare(store, Limit(concurrency=1))
        reset(store, "q")
        assert heard() == []


def test_a_worker_that_starts_does_not_wait_for_the_holder_of_a_limit(
    store: Store, worker: int
) -> None:
    """A consumer in SQL may have it for as long as its transaction is open (G14)."""
    store.enqueue()
    declare(store, Limit(concurrency=3))
    with engine_connection(store.dsn) as consumer, consumer.transaction():
        assert len(claim(store, worker, alone(), tasks=[TASK], conn=consumer)) == 1
        assert declare(store, Limit(concurrency=3)) == 0
        assert declare(store, Limit(concurrency=2)) == 1
