"""G8: poison blocks nobody."""

import asyncio
from uuid import UUID, uuid4

import psycopg
import pytest

from headway import Headway, Retry
from headway.store.statements import inspect
from tests.support import eventually

ADD = """insert into job (id, run_at, created_at, max_attempts, state, queue, task,
                          input, options, headers)
         values (%s, now(), now(), 5, 'r', %s, %s, %s, %s, %s)"""


def insert(
    db: psycopg.Connection,
    task: str,
    input_: str,
    *,
    queue: str = "default",
    options=None,
    headers=None,
) -> UUID:
    """A job as someone who writes the tables himself may leave it."""
    job_id = uuid4()
    db.execute(ADD, [job_id, queue, task, input_, options, headers])
    return job_id


@pytest.fixture
def task(hw: Headway):
    @hw.task(retry=Retry(max_attempts=5, backoff="constant", base=0))
    async def task(n: int) -> int:
        return n

    return task


@pytest.mark.parametrize(
    "stored",
    ['{"n": "one"}', "{}", '{"n": 1, "m": 2}', "[1]", "null", '"n"', '{"n": null}', '{"n": 1.5}'],
)
async def test_g8_input_that_does_not_fit_fails_at_once_and_alone(
    hw, task, db, stored: str
) -> None:
    bad = insert(db, "task", stored)
    good = await task.enqueue_many({"n": n} for n in range(20))
    await hw.run_until_idle()
    status = await hw.job(bad).status()
    assert (status.state, status.attempt) == ("failed", 1)
    assert status.error["type"] == "InvalidInput"
    assert status.error["message"]
    assert [await job.result() for job in good] == list(range(20))


@pytest.mark.parametrize(
    "options",
    ["[]", '{"timeout": "soon"}', '{"retry": {"shape": 1}}', '{"retry": {"base": -1}}', "5"],
)
async def test_g8_options_that_make_no_sense_fail_that_job_alone(
    hw, task, db, options: str
) -> None:
    bad = insert(db, "task", '{"n": 1}', options=options)
    good = await task.enqueue_many({"n": n} for n in range(5))
    await hw.run_until_idle()
    assert (await hw.job(bad).status()).state == "failed"
    assert [await job.result() for job in good] == list(range(5))


async def test_g8_headers_that_make_no_sense_hurt_nobody(hw, task, db) -> None:
    bad = insert(db, "task", '{"n": 1}', headers='["not", "a", "mapping"]')
    good = await task.enqueue(2)
    await hw.run_until_idle()
    assert (await hw.job(bad).status()).finished
    assert await good.result() == 2


class Odd:
    pass


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("a\0b", "NUL"),
        ({"deep": ["\0"]}, "NUL"),
        ("\ud800", "cannot be stored as JSON"),
        (Odd(), "Odd cannot be stored as JSON"),
        ({1, Odd}, "cannot be stored as JSON"),
        ("x" * 3_000, "the result is 3,002 bytes of JSON, more than the limit of 2,000"),
    ],
)
@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_g8_a_result_that_cannot_be_stored_fails_that_job_alone(
    dsn: str, schema: str, value, why: str, kind: str
) -> None:
    async with Headway(dsn, schema=schema, max_payload_bytes=2_000) as hw:

        async def on_the_loop(bad: bool) -> object:
            return value if bad else "fine"

        def in_a_thread(bad: bool) -> object:
            return value if bad else "fine"

        task = hw.task(name="task")(on_the_loop if kind == "async" else in_a_thread)
        good = await task.enqueue_many([{"bad": False}] * 10)
        bad = await task.enqueue(bad=True)
        good += await task.enqueue_many([{"bad": False}] * 10)
        await hw.run_until_idle()
        status = await bad.status()
        assert (status.state, status.attempt) == ("failed", 1), "another attempt would end the same"
        assert status.error["type"] == "InvalidResult"
        assert why in status.error["message"]
        assert [await job.result() for job in good] == ["fine"] * 20


async def test_g8_a_verdict_that_the_server_refuses_is_found_in_its_batch(hw, db) -> None:
    """Whatever the library overlooks, the one bad row is set aside and the rest is settled."""
    db.execute("alter table archive add constraint picky check (result <> '13')")

    @hw.task
    async def task(n: int) -> int:
        return n

    jobs = await task.enqueue_many({"n": n} for n in range(40))
    await hw.run_until_idle()
    told = [await job.status() for job in jobs]
    assert [s.state for s in told].count("succeeded") == 39
    assert told[13].state == "failed"
    assert told[13].error["type"] == "InvalidResult"
    assert "picky" in told[13].error["message"]


async def test_g8_an_error_with_any_text_is_stored(hw) -> None:
    @hw.task(retry=Retry(1))
    async def task(text: str) -> None:
        raise ValueError(text.replace("NUL", "\0").replace("LONE", "\udc80"))

    texts = ["a NUL b", "LONE", "x" * 100_000, "", "\\u0000", "💾"]
    jobs = [await task.enqueue(text) for text in texts]
    await hw.run_until_idle()
    told = [(await job.status()).error["message"] for job in jobs]
    assert told[0] == "a \\0 b"
    assert told[1] == "\\udc80"
    assert len(told[2]) < 9_000
    assert told[3:] == ["", "\\u0000", "💾"]


async def test_g8_an_unknown_task_waits_is_shown_and_runs_on_a_worker_that_knows_it(
    hw, task, dsn, schema, db
) -> None:
    stranger = insert(db, "stranger", '{"n": 3}')
    worker = asyncio.create_task(hw.run_worker(signals=False))
    good = await task.enqueue_many({"n": n} for n in range(20))
    assert [await job.result(timeout="60s") for job in good] == list(range(20))
    status = await hw.job(stranger).status()
    assert (status.state, status.attempt) == ("ready", 0)
    assert await hw._session.client.run(inspect.stranded(None)) == {"stranger": 1}

    async with Headway(dsn, schema=schema) as newer:

        @newer.task
        async def stranger_(n: int) -> int:
            return n

        renamed = newer.task(name="stranger")(stranger_.definition.function)
        assert renamed.name == "stranger"
        await newer.run_until_idle()
        assert await newer.job(stranger).result() == 3
    assert await hw._session.client.run(inspect.stranded(None)) == {}
    insert(db, "stranger", '{"n": 4}')
    assert await hw._session.client.run(inspect.stranded(None)) == {"stranger": 1}
    (_,) = db.execute("select id from claim('default', 1)").fetchall()
    insert(db, "stranger", '{"n": 5}')
    # A consumer in SQL that names no tasks knows them all.
    assert await hw._session.client.run(inspect.stranded(None)) == {}
    worker.cancel()
    await asyncio.wait([worker])


async def test_g8_a_task_in_a_queue_that_nobody_serves_is_shown_too(hw, task, start) -> None:
    start(queues={"default": 1})
    job = await task.using(queue="elsewhere").enqueue(1)

    async def stranded() -> bool:
        return await hw._session.client.run(inspect.stranded(None)) == {"task": 1}

    await eventually(stranded)
    assert (await job.status()).state == "ready"


async def test_g8_many_jobs_nobody_knows_do_not_hide_the_one_behind_them(
    hw, task, start, db
) -> None:
    for _ in range(1_200):
        insert(db, "stranger", "{}")
    start()
    job = await task.enqueue(5)
    assert await job.result(timeout="60s") == 5
