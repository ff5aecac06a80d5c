"""Reads and writes of a worker other than its moves: progress, held, orphans, lanes, idle, outcome."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from headway.core.state import State
from headway.store.rows import Lane
from headway.store.statements import jobs
from tests.store.store import Store, ask


def test_g2_progress_is_fenced_like_a_verdict(store: Store, worker: int) -> None:
    old = store.held(worker)
    assert store.run(jobs.progress([(old, {"percent": 10, "message": "so far"})])) == 1
    row = store.live(old.id)
    assert row is not None
    assert row["progress"] == {"percent": 10, "message": "so far"}
    store.settle(old, "release")
    before = store.everything()
    assert store.run(jobs.progress([(old, {"percent": 20})])) == 0
    assert store.everything() == before
    (new,) = store.claim(worker)
    assert store.run(jobs.progress([(old, {"percent": 30}), (new, {"percent": 1})])) == 1
    row = store.live(new.id)
    assert row is not None
    assert row["progress"] == {"percent": 1}


def test_a_new_attempt_begins_without_progress(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.run(jobs.progress([(claim, {"percent": 99})]))
    store.settle(claim, "retry")
    row = store.live(claim.id)
    assert row is not None
    assert row["progress"] is None


def test_held_says_which_claims_are_still_current(store: Store, worker: int) -> None:
    kept, asked, settled, moved = (store.held(worker, queue=q) for q in ("a", "b", "c", "d"))
    store.cancel(asked.id)
    store.settle(settled, "succeed")
    store.settle(moved, "release")
    store.claim(worker, ask("d"))
    answer = store.run(jobs.held([kept, asked, settled, moved]))
    assert answer == {kept.id: False, asked.id: True}
    assert store.run(jobs.held([])) == {}


def test_orphans_are_what_a_worker_holds_without_knowing(store: Store, worker: int) -> None:
    known = store.held(worker)
    unknown = store.held(worker, headers={"h": "v"}, options={"timeout": 1.0})
    store.held(store.register())
    store.enqueue()
    assert store.run(jobs.orphans(worker, [known], 9)) == [unknown], "as it was claimed"
    assert store.run(jobs.orphans(worker, [known, unknown], 9)) == []
    assert {claim.id for claim in store.run(jobs.orphans(worker, [], 9))} == {known.id, unknown.id}
    assert [claim.id for claim in store.run(jobs.orphans(worker, [], 1))] == [known.id]


def test_lanes_are_found_with_the_newest_seq(store: Store) -> None:
    for queue, priority in (("a", 0), ("a", 5), ("a", 5), ("a", -1), ("b", 2), ("c", 0)):
        store.enqueue(queue=queue, priority=priority)
    store.enqueue(queue="b", priority=9, delay=60.0)
    lanes = store.run(jobs.lanes(["a", "b", "empty"]))
    assert sorted(lanes.found) == [Lane("a", -1), Lane("a", 0), Lane("a", 5), Lane("b", 2)]
    newest = store.one("select max(seq) as newest from job")["newest"]
    assert lanes.newest == newest


def test_no_lanes_are_found_where_nothing_is_ready(store: Store, worker: int) -> None:
    store.held(worker)
    store.enqueue(delay=60.0)
    assert store.run(jobs.lanes(["q"])).found == []


def test_the_newest_seq_of_a_fresh_schema_comes_before_its_first_job(store: Store) -> None:
    """A cursor moved to it must not pass over the first job ever made."""
    newest = store.run(jobs.lanes(["q"])).newest
    row = store.live(store.enqueue())
    assert row is not None
    assert newest < row["seq"]


@pytest.mark.parametrize("state", ["ready", "running", "due"])
def test_what_can_run_or_runs_is_not_idle(store: Store, worker: int, state: str) -> None:
    def idle(queues: list[str], tasks: list[str]) -> bool:
        return store.run(jobs.idle(queues, tasks, store.now))

    assert idle(["q"], ["resize"])
    if state == "running":
        store.held(worker)
    else:
        store.enqueue(delay=5.0 if state == "due" else None)
    if state == "due":
        assert idle(["q"], ["resize"]), "not due yet"
        store.advance(5)
    assert not idle(["other", "q"], ["other", "resize"])
    assert idle(["other"], ["resize"])
    assert idle(["q"], ["other"])


def test_what_waits_in_a_paused_queue_does_not_keep_anyone_busy(store: Store) -> None:
    store.enqueue()
    store.enqueue(delay=1.0)
    store.advance(1)
    store.pause("q")
    assert store.run(jobs.idle(["q"], ["resize"], store.now))


def test_what_runs_in_a_paused_queue_still_runs(store: Store, worker: int) -> None:
    store.held(worker)
    store.pause("q")
    assert not store.run(jobs.idle(["q"], ["resize"], store.now))


def test_the_outcome_of_a_job_wherever_it_is(store: Store, worker: int) -> None:
    assert store.run(jobs.outcome(uuid4())) is None
    claim = store.held(worker)
    live = store.run(jobs.outcome(UUID(claim.id)))
    assert live is not None
    assert (live.state, live.result, live.error) == (State.RUNNING, None, None)
    store.settle(claim, "fail", error="why")
    ended = store.run(jobs.outcome(UUID(claim.id)))
    assert ended is not None
    assert (ended.state, ended.result) == (State.FAILED, None)
    assert ended.error == {"type": "Oops", "message": "why"}


def test_a_moment_may_have_any_precision(store: Store) -> None:
    store.now += timedelta(microseconds=123_457)
    row = store.live(store.enqueue())
    assert row is not None
    assert row["created_at"] == store.now
