"""A failed job goes to a queue for the dead as a new job, with a link to the old one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from headway import Fatal, Headway, Job, Retry
from tests.endings.conftest import Crash, Db
from tests.support import Running, eventually


def _letters(db: Db, of: UUID) -> list[UUID]:
    """The jobs that were made of a dead one."""
    rows = db.execute("select id from jobs where headers ->> 'dead-letter-of' = %s", (str(of),))
    return [row[0] for row in rows]


async def test_a_failed_job_is_made_anew_in_the_queue_for_the_dead(hw: Headway, db: Db) -> None:
    @hw.task(dead_letter="graves", retry=Retry(max_attempts=2, base=0), priority=3)
    async def mail(to: str) -> None:
        raise OSError("no route")

    job = await mail.using(headers={"trace": "abc"}).enqueue("ada")
    await hw.run_until_idle(queues={"default": 1})
    (letter_id,) = _letters(db, job.id)
    letter = await hw.job(letter_id).status()
    assert (letter.task, letter.queue, letter.state) == ("mail", "graves", "ready")
    assert (letter.input, letter.attempt, letter.priority) == ({"to": "ada"}, 0, 3)
    assert letter.headers == {"trace": "abc", "dead-letter-of": str(job.id)}
    assert (await job.status()).state == "failed"
    assert [attempt.attempt for attempt in await job.attempts()] == [1, 2]


async def test_a_worker_of_that_queue_runs_it(hw: Headway, db: Db) -> None:
    mended = list[bool]()

    @hw.task(dead_letter="graves")
    async def mail(to: str) -> str:
        if not mended:
            raise Fatal("no route")
        return f"sent to {to}"

    job = await mail.enqueue("ada")
    await hw.run_until_idle(queues={"default": 1})
    mended.append(True)
    await hw.run_until_idle(queues={"graves": 1})
    (letter,) = _letters(db, job.id)
    assert await hw.job(letter).result(timeout="60s") == "sent to ada"


async def test_from_the_queue_for_the_dead_nothing_goes_there_again(hw: Headway, db: Db) -> None:
    @hw.task(dead_letter="graves")
    async def mail() -> None:
        raise Fatal("never")

    job = await mail.enqueue()
    await hw.run_until_idle(queues={"default": 1, "graves": 1})
    (letter,) = _letters(db, job.id)
    assert (await hw.job(letter).status()).state == "failed"
    assert _letters(db, letter) == []
    assert db.execute("select count(*) from jobs").fetchone() == (2,)


async def test_g6_a_job_that_a_crash_failed_goes_there_too(
    hw: Headway, db: Db, crash: Crash, start: Callable[..., Running]
) -> None:
    @hw.task(dead_letter="graves")
    async def mail(to: str) -> None: ...

    await hw.run_until_idle()
    job = await mail.enqueue("ada")
    crash(job.id)
    start(queues={"default": 1})
    (letter,) = await eventually(lambda: _letters(db, job.id))
    assert (await hw.job(letter).status()).input == {"to": "ada"}
    status = await job.status()
    assert status.error is not None
    assert (status.state, status.error["type"]) == ("failed", "WorkerLost")


async def test_a_flow_is_buried_at_the_step_where_it_failed_and_goes_on_from_there(
    hw: Headway, db: Db
) -> None:
    mended = list[bool]()
    flow = hw.flow("order", dead_letter="graves")

    @flow.step
    async def generate(order_id: int) -> Any:
        return email.next(key=f"receipt-{order_id}")

    @flow.step
    async def email(key: str) -> str:
        if not mended:
            raise Fatal("no such mailbox")
        return key

    job: Job[Any] = await flow.enqueue(order_id=7)
    await hw.run_until_idle(queues={"default": 1})
    (letter,) = _letters(db, job.id)
    status = await hw.job(letter).status()
    assert (status.step, status.input) == ("email", {"key": "receipt-7"})
    mended.append(True)
    await hw.run_until_idle(queues={"graves": 1})
    assert await hw.job(letter).result(timeout="60s") == "receipt-7"
