"""advance.sql: a flow goes from one step to the next in one write (G5)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.store.rows import Claim
from headway.store.statements import fleet, jobs
from headway.store.statements.jobs import Settled
from tests.store.store import NOW, Store, ask, counted, engine_connection, new_job, verdict

_ONE, _TWO = ("order/one",), ("order/two",)


def _start(store: Store, worker: int, **fields: object) -> Claim:
    """A job of the flow at its first step, claimed."""
    return store.held(worker, **{"task": "order", "step": "one", **fields})


def test_g5_the_next_step_its_input_and_the_end_of_this_one_are_one_write(
    store: Store, worker: int
) -> None:
    claim = _start(store, worker, input={"n": 1}, carried=None, headers={"h": "v"}, ttl=900.0)
    before = store.row(claim.id)
    store.run(jobs.progress([(claim, {"percent": 90})]))
    store.advance(4)
    assert store.settle(
        claim,
        "advance",
        step="two",
        input={"m": 2},
        queue="mail",
        priority=5,
        max_attempts=9,
        carried={"total": 3},
    )
    row = store.row(claim.id)
    assert row["seq"] > before["seq"], "it goes to the tail of its new lane"
    changed = {name: row[name] for name in row if row[name] != before[name]}
    changed.pop("seq")
    assert changed == {
        "state": "r",
        "step": "two",
        "input": {"m": 2},
        "carried": {"total": 3},
        "queue": "mail",
        "priority": 5,
        "max_attempts": 9,
        "attempt": 0,
        "run_at": NOW + timedelta(seconds=4),
        "worker_id": None,
    }, "the id, the age, the claim number, the headers and the time to live stay"


def test_a_step_that_is_done_leaves_a_row_of_history(store: Store, worker: int) -> None:
    claim = _start(store, worker, input={"n": 1})
    store.advance(4)
    store.settle(claim, "advance", step="two", input={"m": 2}, carried={"total": 3})
    (row,) = store.attempts(claim.id)
    assert row == row | {
        "started_at": NOW,
        "finished_at": NOW + timedelta(seconds=4),
        "worker_id": worker,
        "claims": 1,
        "attempt": 1,
        "outcome": "n",
        "task": "order",
        "queue": "q",
        "step": "one",
        "next_step": "two",
        "error": None,
        "input": {"n": 1},
        "carried": None,
    }, "what the step began with, so that it can be gone back to"


def test_the_last_step_is_on_record_too_and_that_of_a_task_is_not(
    store: Store, worker: int
) -> None:
    claim = _start(store, worker)
    store.settle(claim, "advance", step="two", input={"m": 2})
    (second,) = store.claim(worker, ask(tasks=_TWO))
    assert store.settle(second, "succeed", result="sent", carried={"total": 9})
    assert [(row["step"], row["outcome"]) for row in store.attempts(claim.id)] == [
        ("one", "n"),
        ("two", "d"),
    ]
    row = store.archived(claim.id)
    assert row is not None
    assert (row["state"], row["step"], row["result"], row["carried"]) == (
        "d",
        "two",
        "sent",
        {"total": 9},
    )


def test_attempts_start_anew_at_each_step_and_claim_numbers_go_on(
    store: Store, worker: int
) -> None:
    claim = _start(store, worker, max_attempts=2)
    store.settle(claim, "retry")
    (claim,) = store.claim(worker, ask(tasks=_ONE))
    assert (claim.attempt, counted(claim)) == (2, 2)
    store.settle(claim, "advance", step="two", max_attempts=4)
    (claim,) = store.claim(worker, ask(tasks=_TWO))
    assert (claim.attempt, claim.max_attempts, counted(claim)) == (1, 4, 3)
    assert (claim.step, claim.handler) == ("two", "order/two")


def test_g8_a_step_that_a_worker_does_not_know_is_left_for_one_that_does(
    store: Store, worker: int
) -> None:
    claim = _start(store, worker)
    store.settle(claim, "advance", step="two")
    for tasks in (_ONE, ("order",), ("two",), ()):
        assert store.claim(worker, ask(tasks=tasks)) == []
    (second,) = store.claim(worker, ask(tasks=_TWO))
    assert second.id == claim.id


def test_g2_a_stale_claim_advances_nothing_and_makes_no_children(store: Store, worker: int) -> None:
    old = _start(store, worker)
    store.settle(old, "release")
    (new,) = store.claim(worker, ask(tasks=_ONE))
    before = store.everything()
    assert not store.settle(old, "advance", children=[new_job()])
    assert store.everything() == before
    assert store.settle(new, "advance")
    before = store.everything()
    assert not store.settle(new, "advance"), "and not twice"
    assert store.everything() == before


def test_two_settlers_of_one_claim_advance_it_once(store: Store, worker: int) -> None:
    claim = _start(store, worker)
    settled = [Settled(claim, verdict("advance", children=[new_job()]))]
    move = jobs.advance(store.target, settled, store.now)
    settled[0].verdict.children = [new_job()]
    again = jobs.advance(store.target, settled, store.now)
    with engine_connection(store.dsn) as conn, conn.transaction():
        assert store.run(move, conn) == {}
        assert store.run(again) == {claim.id: "locked"}, "it does not wait for the first"
    assert store.run(again) == {claim.id: "lost"}
    assert store.count("attempt") == 1
    assert store.count("job") == 2, "the job and one child"


def test_a_job_that_was_asked_to_stop_goes_to_no_other_step(store: Store, worker: int) -> None:
    claim = _start(store, worker)
    store.cancel(claim.id)
    before = store.everything()
    assert not store.settle(claim, "advance", children=[new_job()])
    assert store.everything() == before
    # The row shows that it was locked, so the first look at it may not be enough.
    assert store.settle(claim, "cancel", careful=True)


def test_what_was_not_touched_is_named_and_the_rest_goes_on(store: Store, worker: int) -> None:
    moved, asked, lost = (_start(store, worker, queue=queue) for queue in ("a", "b", "c"))
    store.cancel(asked.id)
    lost.number = 7
    settled = [Settled(claim, verdict("advance")) for claim in (asked, moved, lost)]
    untouched = store.run(jobs.advance(store.target, settled, store.now))
    assert untouched == {asked.id: "asked", lost.id: "lost"}
    assert store.row(moved.id)["step"] == "two"
    assert [store.row(claim.id)["step"] for claim in (asked, lost)] == ["one", "one"]


@pytest.mark.parametrize("kind", ["advance", "succeed"])
def test_children_exist_only_with_the_verdict_that_makes_them(
    store: Store, worker: int, kind: str
) -> None:
    claim = _start(store, worker)
    later, keyed = new_job(delay=9.0, queue="children"), new_job(key="k", queue="children")
    children = [new_job(queue="children", headers={"h": "v"}), later, keyed]
    with store.listening() as heard:
        assert store.settle(claim, kind, children=children)  # type: ignore[arg-type]
        expected = ["blocked", "later", "ready 0 children"]
        assert sorted(heard()) == expected + (["ready 0 q"] if kind == "advance" else [])
    made = {str(row["id"]): row for row in store.rows("select * from job where queue = 'children'")}
    assert set(made) == {child.id for child in children}
    assert made[children[0].id]["headers"] == {"h": "v"}
    assert [store.states(child.id) for child in children] == [["ready"], ["scheduled"], ["blocked"]]


def test_a_child_that_exists_already_is_not_made_again(store: Store, worker: int) -> None:
    """An attempt that is settled twice, the first time with its reply lost, names the same ids."""
    child = new_job(queue="children")
    store.run(jobs.enqueue(store.target, [child], store.now))
    assert store.settle(_start(store, worker), "succeed", children=[child])
    assert store.one("select count(*) as n from job where queue = 'children'")["n"] == 1


@pytest.mark.parametrize(
    ("delay", "ordered", "key", "state", "holds"),
    [
        (0.0, False, "k", "r", True),  # the same key, at once: it keeps its room
        (0.0, True, "k", "r", True),
        (5.0, False, "k", "s", False),  # later: it stands in line again when it is due
        (5.0, True, "k", "s", True),  # later but in order: nobody passes it
        (0.0, False, "other", "b", False),  # another key: the line of that one
        (0.0, True, "other", "b", False),
        (5.0, True, "other", "s", False),
        (0.0, False, None, "r", False),  # no key
        (5.0, False, None, "s", False),
    ],
)
def test_i9_room_is_kept_under_the_same_key_at_once_or_in_order(
    store: Store,
    worker: int,
    delay: float,
    ordered: bool,
    key: str | None,
    state: str,
    holds: bool,
) -> None:
    claim = _start(store, worker, key="k", ordered=ordered)
    behind = store.enqueue(key="k")
    assert store.admit("k") == 0
    store.settle(claim, "advance", delay=delay, key=key, ordered=ordered and key is not None)
    row = store.row(claim.id)
    assert (row["state"], row["holds"], row["key"]) == (state, holds, key)
    assert store.admit("k") == (0 if holds else 1)
    assert store.row(behind)["holds"] is not holds


def test_a_step_without_a_key_before_one_with_a_key_stands_in_its_line(
    store: Store, worker: int
) -> None:
    claim = _start(store, worker)
    with store.listening() as heard:
        store.settle(claim, "advance", key="k", key_limit=2)
        assert heard() == ["blocked"]
    assert store.row(claim.id)["key_limit"] == 2
    assert store.admit("k") == 1
    (second,) = store.claim(worker, ask(tasks=_TWO))
    assert second.key == "k"


def test_a_step_after_a_delay_is_promoted_when_it_is_due(store: Store) -> None:
    worker = store.register(lease=1_000)
    claim = _start(store, worker)
    with store.listening() as heard:
        store.settle(claim, "advance", delay=60)
        assert heard() == ["later"]
    store.advance(60)
    assert store.run(jobs.promote(store.target, None, 10, store.now)).count == 1
    assert store.states(claim.id) == ["ready"]


def test_a_unique_key_stays_with_the_job_from_step_to_step(store: Store, worker: int) -> None:
    claim = _start(store, worker, unique_key="u", on_taken="skip")
    store.settle(claim, "advance")
    asked = store.enqueue(task="order", step="one", unique_key="u", on_taken="skip")
    assert str(asked) == claim.id


def test_a_lost_lease_at_a_later_step_sends_the_job_back_to_that_step(
    store: Store, worker: int
) -> None:
    claim = _start(store, worker)
    store.settle(claim, "advance", step="two", input={"m": 2})
    store.claim(worker, ask(tasks=_TWO))
    store.run(fleet.retire(worker, store.now))
    assert store.rescue(10) == (1, 0)
    row = store.row(claim.id)
    assert (row["state"], row["step"], row["input"]) == ("r", "two", {"m": 2})
