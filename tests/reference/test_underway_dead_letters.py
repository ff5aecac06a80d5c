"""What underway's tests of a queue say of dead letters and keys: U7, U14, U29, U42; and delays, U12."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg

from headway import Headway, Key, Retry
from tests.reference.scenes import ONE_CRASH, lose
from tests.store.store import TASK, Store


async def test_u7_a_task_names_its_dead_letter_queue(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Underway: the queue knows it, in this process alone. Headway: workers declare it."""

    @hw.task(dead_letter="dead")
    async def work() -> None: ...

    await hw.run_until_idle()
    assert db.execute("select name, dead_letter from task").fetchall() == [("work", "dead")]


async def test_u12_a_tasks_own_delay_is_that_of_calls_without_one(hw: Headway) -> None:
    """Underway: the task's delay is stored. Headway: the same, unless the call says otherwise."""

    @hw.task(delay="1h")
    async def work() -> None: ...

    own, given = [await job.enqueue() for job in (work, work.using(delay="2h"))]
    waits = [(status := await job.status()).run_at - status.created_at for job in (own, given)]
    assert waits == [timedelta(hours=1), timedelta(hours=2)]


async def test_u14_a_concurrency_key_is_stored(hw: Headway) -> None:
    """Underway: the task's key is stored, and is unique. Headway: the call's, the task's or one made of
    the arguments; a job that has one waits for room under it (decisions 59, 61)."""

    @hw.task(concurrency_key=Key(lambda number: f"n{number}", limit=3))
    async def work(number: int) -> None: ...

    jobs = [await work.enqueue(1), await work.using(concurrency_key="its own").enqueue(2)]
    statuses = [await job.status() for job in jobs]
    assert [status.keys for status in statuses] == [
        {"concurrency": "n1", "limit": 3},
        {"concurrency": "its own", "limit": 1},
    ]
    assert [status.state for status in statuses] == ["blocked"] * 2


async def test_u29_a_dead_letter_is_a_new_job_with_a_link_to_the_old(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Underway: the row moves to the other queue. Headway: it stays where it failed, and a new job has
    the same work (decision 65)."""

    @hw.task(dead_letter="dead", retry=Retry(max_attempts=1))
    async def work(number: int) -> None:
        raise RuntimeError("broken")

    job = await work.enqueue(3)
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.queue) == ("failed", "default")
    assert len(await job.attempts()) == 1
    (letter,) = db.execute("select task, queue, input, headers from job").fetchall()
    assert letter == ("work", "dead", {"number": 3}, {"dead-letter-of": str(job.id)})


def test_u42_a_job_lost_for_good_has_its_dead_letter_too(store: Store) -> None:
    """Underway: a stale task without attempts left moves there. Headway: the rescue makes the letter
    when it fails the job."""
    store.declare(dead_letter="dead", keep_failed="30 days")
    claim = store.held(store.register(), input={"number": 3}, **ONE_CRASH)
    lose(store)
    assert store.states(claim.id) == ["failed"]
    letter = store.one("select task, queue, input, headers from job")
    assert letter == {
        "task": TASK,
        "queue": "dead",
        "input": {"number": 3},
        "headers": {"dead-letter-of": claim.id},
    }
