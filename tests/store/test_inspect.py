"""Reads for people: one job's story, pages of jobs, queues (store/statements/inspect.py)."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from headway.core.info import JobStatus
from headway.core.state import State
from headway.store.statements import inspect, jobs
from tests.store.store import NOW, Store, new_job


def _job(store: Store, job_id: UUID | str) -> JobStatus:
    row = store.run(inspect.job(UUID(str(job_id))))
    assert row is not None
    return row


def test_a_waiting_job_shows_what_was_asked_of_it(store: Store) -> None:
    job_id = store.enqueue(
        queue="mail", priority=2, delay=60.0, ttl=90.0, input={"a": 1}, headers={"h": "v"}
    )
    assert _job(store, job_id) == JobStatus(
        id=job_id,
        task="resize",
        queue="mail",
        step="",
        state="scheduled",
        priority=2,
        attempt=0,
        max_attempts=3,
        run_at=NOW + timedelta(seconds=60),
        created_at=NOW,
        started_at=None,
        finished_at=None,
        worker=None,
        error=None,
        input={"a": 1},
        result=None,
        headers={"h": "v"},
        progress=None,
        expires_at=NOW + timedelta(seconds=90),
        cancelling=False,
        keys=None,
        carried=None,
    )


def test_a_running_job_shows_its_worker_and_its_progress(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.run(jobs.progress([(claim, {"percent": 50, "message": "half"})]))
    store.cancel(claim.id)
    row = _job(store, claim.id)
    assert (row.state, row.worker, row.started_at) == ("running", worker, NOW)
    assert (row.progress, row.cancelling) == ({"percent": 50, "message": "half"}, True)
    assert row.attempt == 1


def test_a_job_that_waits_for_its_retry_has_not_started(store: Store, worker: int) -> None:
    claim = store.held(worker)
    store.settle(claim, "retry", delay=5)
    row = _job(store, claim.id)
    assert (row.state, row.started_at, row.worker, row.attempt) == ("scheduled", None, None, 1)


def test_a_finished_job_shows_how_it_ended(store: Store, worker: int) -> None:
    done, failed = store.held(worker), store.held(worker)
    store.advance(3)
    store.settle(done, "succeed", result=[1, 2])
    store.settle(failed, "fail", error="why")
    row = _job(store, done.id)
    assert (row.state, row.result, row.error) == ("succeeded", [1, 2], None)
    assert (row.started_at, row.finished_at) == (NOW, store.now)
    row = _job(store, failed.id)
    assert (row.state, row.result) == ("failed", None)
    assert row.error == {"type": "Oops", "message": "why"}


def test_a_job_that_does_not_exist_is_none(store: Store) -> None:
    assert store.run(inspect.job(uuid4())) is None
    assert store.run(inspect.attempts(uuid4())) == []


def test_attempts_are_shown_oldest_first(store: Store, worker: int) -> None:
    claim = store.held(worker)
    for wait, message in ((1, "one"), (2, "two")):
        store.advance(wait)
        store.settle(claim, "retry", error=message)
        (claim,) = store.claim(worker)
    store.settle(claim, "fail", error="three")
    shown = store.run(inspect.attempts(UUID(claim.id)))
    assert [row.error["message"] for row in shown] == ["one", "two", "three"]
    assert [(row.attempt, row.claim) for row in shown] == [(1, 1), (2, 2), (3, 3)]


def test_pages_run_newest_first_over_live_and_archived_jobs(store: Store, worker: int) -> None:
    made = [new_job() for _ in range(25)]
    store.run(jobs.enqueue(store.target, made, store.now))
    for number, claim in enumerate(sorted(store.claim(worker), key=lambda claim: claim.seq)):
        if number % 2:
            store.settle(claim, "succeed")
    seen: list[UUID] = []
    before: UUID | None = None
    while page := store.run(inspect.jobs(before=before, limit=7)):
        assert len(page) == min(7, 25 - len(seen))
        seen += [row.id for row in page]
        before = page[-1].id
    assert seen == sorted((UUID(job.id) for job in made), reverse=True)


def test_a_page_is_the_same_while_new_jobs_arrive(store: Store) -> None:
    for _ in range(6):
        store.enqueue()
    first = store.run(inspect.jobs(limit=3))
    store.enqueue()
    second = store.run(inspect.jobs(limit=3, before=first[-1].id))
    assert not {row.id for row in first} & {row.id for row in second}
    assert len(second) == 3


def test_pages_are_narrowed_by_state_task_and_queue(store: Store, worker: int) -> None:
    ready = store.enqueue(task="other", queue="mail")
    failed, running = store.held(worker), store.held(worker)
    store.settle(failed, "fail", error="why")

    def ids(**by: object) -> set[str]:
        return {str(row.id) for row in store.run(inspect.jobs(**by))}  # type: ignore[arg-type]

    assert ids(states=[State.FAILED]) == {failed.id}
    assert ids(states=[State.FAILED, State.READY]) == {failed.id, str(ready)}
    assert ids(states=[]) == set()
    assert ids(task="resize") == {failed.id, running.id}
    assert ids(queue="mail") == {str(ready)}
    assert ids(queue="mail", states=[State.FAILED]) == set()
    assert ids() == {str(ready), failed.id, running.id}


def test_a_page_shows_errors_and_leaves_payloads_where_they_are(store: Store, worker: int) -> None:
    claim = store.held(worker, input={"large": "x" * 1000})
    store.settle(claim, "fail", error="why")
    (row,) = store.run(inspect.jobs())
    assert row.error == {"type": "Oops", "message": "why"}
    assert not hasattr(row, "input")


def test_queues_show_what_waits_and_for_how_long(store: Store, worker: int) -> None:
    store.enqueue(queue="a")
    store.advance(10)
    store.enqueue(queue="a")
    store.enqueue(queue="a", delay=60.0)
    store.held(worker, queue="b")
    store.pause("c", actor="ada", reason="why")
    a, b, c = store.run(inspect.queues(store.now))
    assert (a.name, a.ready, a.scheduled, a.running, a.oldest_ready_age) == ("a", 2, 1, 0, 10.0)
    assert (b.name, b.ready, b.running, b.oldest_ready_age) == ("b", 0, 1, None)
    assert (c.name, c.ready, c.paused_at) == ("c", 0, store.now)
    assert (c.paused_by, c.pause_reason) == ("ada", "why")


def test_the_server_says_whether_it_can_be_used(store: Store) -> None:
    row = store.run(inspect.server())
    assert row.in_recovery is False
    assert int(row.version.split(".")[0]) >= 14
    assert row.now.tzinfo is not None


@pytest.mark.parametrize("state", ["blocked", "waiting"])
def test_states_of_later_kinds_are_shown_too(store: Store, state: str) -> None:
    job_id = store.enqueue()
    store.rows("update job set state = %s returning 1", state[0])
    assert _job(store, job_id).state == state
