"""finish.sql: verdicts that end jobs, written once, and only by the holder of the claim."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from psycopg.errors import UntranslatableCharacter

from headway.core.verdict import Verdict
from headway.store.statements import jobs
from headway.store.statements.jobs import Settled
from tests.store.store import (
    NOW,
    Store,
    a_claim,
    ask,
    counted,
    engine_connection,
    new_job,
    verdict,
)


def test_the_archive_keeps_everything_that_the_row_said(store: Store, worker: int) -> None:
    job_id = store.enqueue(
        queue="mail",
        priority=4,
        ttl=900.0,
        input={"a": [1, 2]},
        options={"timeout": 5.0},
        headers={"trace": "t"},
    )
    before = store.live(job_id)
    assert before is not None
    store.advance(2)
    (claim,) = store.claim(worker, ask("mail", 4))
    store.advance(3)
    assert store.settle(claim, "succeed", result={"ok": True})
    assert store.live(job_id) is None
    row = store.archived(job_id)
    assert row is not None
    kept = ("queue", "task", "step", "priority", "max_attempts", "input", "options", "headers")
    assert {name: row[name] for name in kept} == {name: before[name] for name in kept}
    assert row == row | {
        "state": "d",
        "run_at": NOW,
        "created_at": NOW,
        "started_at": NOW + timedelta(seconds=2),
        "finished_at": NOW + timedelta(seconds=5),
        "expires_at": NOW + timedelta(seconds=900),
        "worker_id": worker,
        "claims": 1,
        "attempt": 1,
        "result": {"ok": True},
        "error": None,
    }
    assert store.attempts(job_id) == [], "an attempt that succeeded is not worth a row"


@pytest.mark.parametrize("result", [None, 0, "", [], {}, False, "text with 'quotes' and \\"])
def test_a_result_is_kept_as_it_is(store: Store, worker: int, result: object) -> None:
    claim = store.held(worker)
    store.settle(claim, "succeed", result=result)
    row = store.archived(claim.id)
    assert row is not None
    assert row["result"] == result


def test_i7_a_failure_keeps_its_error_and_a_row_for_the_attempt(store: Store, worker: int) -> None:
    claim = store.held(worker, max_attempts=1)
    store.advance(7)
    assert store.settle(claim, "fail", error="it broke")
    row = store.archived(claim.id)
    assert row is not None
    assert (row["state"], row["result"]) == ("f", None)
    assert row["error"] == {"type": "Oops", "message": "it broke"}
    (attempt,) = store.attempts(claim.id)
    assert attempt == attempt | {
        "started_at": NOW,
        "finished_at": NOW + timedelta(seconds=7),
        "worker_id": worker,
        "claims": 1,
        "attempt": 1,
        "outcome": "f",
        "task": "resize",
        "queue": "q",
        "step": "",
        "error": row["error"],
        "input": None,
    }


def test_r10_a_running_job_that_was_asked_to_stop_succeeds_or_is_cancelled(
    store: Store, worker: int
) -> None:
    """A handler that finished first has finished. One that failed is cancelled: nobody is called."""
    store.declare("called")
    store.declare(on_failure="called", dead_letter="dead")
    for kind, state in (("succeed", "succeeded"), ("fail", "cancelled"), ("cancel", "cancelled")):
        claim = store.held(worker, max_attempts=1)
        store.cancel(claim.id)
        assert store.settle(claim, kind)
        assert store.states(claim.id) == [state]
    assert store.count("job") == 0, "no job follows from it"


def test_g2_a_stale_claim_number_writes_nothing(store: Store, worker: int) -> None:
    old = store.held(worker)
    store.settle(old, "retry")
    (new,) = store.claim(worker)
    assert counted(new) == 2
    before = store.everything()
    for kind in ("succeed", "fail", "cancel"):
        assert not store.settle(old, kind)
    assert store.everything() == before
    assert store.settle(new, "succeed")


def test_g2_a_claim_number_yet_to_come_writes_nothing(store: Store, worker: int) -> None:
    claim = store.held(worker)
    claim.number += 1
    before = store.everything()
    assert not store.settle(claim, "succeed")
    assert store.everything() == before


def test_g2_a_current_number_writes_nothing_unless_the_job_runs(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.settle(claim, "retry", delay=60)
    before = store.everything()
    assert not store.settle(claim, "succeed")
    assert store.everything() == before


def test_g3_settling_twice_settles_once(store: Store, worker: int) -> None:
    claim = store.held(worker)
    assert store.settle(claim, "succeed", result=1)
    before = store.everything()
    assert not store.settle(claim, "fail")
    assert not store.settle(claim, "succeed", result=2)
    assert store.everything() == before


def test_what_was_lost_is_named_and_the_rest_is_written(store: Store, worker: int) -> None:
    made = [new_job() for _ in range(4)]
    store.run(jobs.enqueue(store.target, made, store.now))
    claims = store.claim(worker)
    lost, unknown = claims[1], a_claim(uuid4())
    lost.number = 9
    settled = [Settled(claim, verdict("succeed")) for claim in [*claims, unknown]]
    untouched = store.run(jobs.finish(store.target, settled, store.now))
    assert untouched == {lost.id: "lost", unknown.id: "lost"}
    assert store.count("archive") == 3
    assert store.states(lost.id) == ["running"]


def test_one_batch_may_end_jobs_in_every_way(store: Store, worker: int) -> None:
    made = [new_job() for _ in range(3)]
    store.run(jobs.enqueue(store.target, made, store.now))
    kinds = ("succeed", "fail", "cancel")
    claims = store.claim(worker)
    assert store.cancel(claims[2].id) == "asked"
    settled = [Settled(claim, verdict(kind)) for claim, kind in zip(claims, kinds, strict=True)]
    assert store.run(jobs.finish(store.target, settled, store.now)) == {}
    states = [store.states(one.claim.id)[0] for one in settled]
    assert states == ["succeeded", "failed", "cancelled"]


def test_a_waiting_caller_is_notified_by_id_and_no_other_is(store: Store, worker: int) -> None:
    awaited, ignored = store.held(worker), store.held(worker)
    assert store.run(jobs.await_end(UUID(awaited.id), store.now))
    settled = [Settled(claim, verdict("succeed")) for claim in (awaited, ignored)]
    with store.listening(store.target.done_channel) as heard:
        # Being told is not the same as being lost.
        assert store.run(jobs.finish(store.target, settled, store.now)) == {}
        assert heard() == [awaited.id]
    assert store.count("awaited") == 0


def test_a_caller_that_waits_for_a_lost_claims_job_is_not_notified(
    store: Store, worker: int
) -> None:
    claim = store.held(worker)
    store.run(jobs.await_end(UUID(claim.id), store.now))
    claim.number = 5
    with store.listening(store.target.done_channel) as heard:
        assert not store.settle(claim, "succeed")
        assert heard() == []
    assert store.count("awaited") == 1


def test_without_notifications_the_wait_still_ends_in_the_table(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.run(jobs.await_end(UUID(claim.id), store.now))
    with store.listening(store.target.done_channel) as heard:
        settled = [Settled(claim, verdict("succeed"))]
        assert store.run(jobs.finish(store.quiet, settled, store.now)) == {}
        assert heard() == []
    assert store.count("awaited") == 0


def test_two_settlers_of_one_claim_settle_it_once(store: Store, worker: int) -> None:
    """The same verdict sent again on a new connection while the first is still under way."""
    claim = store.held(worker)
    settled = [Settled(claim, verdict("succeed", result="x"))]
    finish = jobs.finish(store.target, settled, store.now)
    with engine_connection(store.dsn) as conn, conn.transaction():
        assert store.run(finish, conn) == {}
        assert store.run(finish) == {claim.id: "locked"}, "it does not wait for the first"
    assert store.run(finish) == {claim.id: "lost"}
    assert store.count("archive") == 1


def test_a_verdict_the_server_cannot_store_leaves_the_whole_batch_as_it_was(
    store: Store, worker: int
) -> None:
    """G8 is the settler's: it takes the batch apart. Here, a refused batch is refused whole."""
    good, bad = store.held(worker), store.held(worker)
    before = store.everything()
    poison = Verdict("succeed", result=b'"\\u0000"')
    settled = [Settled(good, verdict("succeed")), Settled(bad, poison)]
    with pytest.raises(UntranslatableCharacter):
        store.run(jobs.finish(store.target, settled, store.now))
    assert store.everything() == before
