"""`job.result()`: typed, ended by a notification, and honest about what went wrong."""

import asyncio
import threading
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import msgspec
import psycopg
import pytest

from headway import Fatal, Headway, Retry
from headway.errors import JobCancelled, JobExpired, JobFailed, ResultTimeout
from headway.store.connections.client import Client
from tests.support import DEADLINE, eventually


@dataclass
class Receipt:
    number: UUID
    at: datetime


class Page(msgspec.Struct):
    title: str
    receipts: list[Receipt]


RECEIPT = Receipt(UUID(int=7), datetime(2030, 1, 2, tzinfo=UTC))


async def test_results_come_back_as_what_the_task_returns(hw) -> None:
    @hw.task
    async def page() -> Page:
        return Page("one", [RECEIPT])

    @hw.task
    async def receipt() -> Receipt:
        return RECEIPT

    @hw.task
    async def nothing() -> None: ...

    @hw.task
    async def plain() -> dict:
        return {"receipt": RECEIPT, "pair": (1, 2)}

    jobs = [await task.enqueue() for task in (page, receipt, nothing, plain)]
    await hw.run_until_idle()
    assert await jobs[0].result() == Page("one", [RECEIPT])
    assert await jobs[1].result() == RECEIPT
    assert await jobs[2].result() is None
    stored = {"number": str(RECEIPT.number), "at": "2030-01-02T00:00:00Z"}
    assert await jobs[3].result() == {"receipt": stored, "pair": [1, 2]}
    assert await hw.job(jobs[1].id).result() == stored, "a handle from an id does not know the type"


@pytest.mark.parametrize(
    "value", [0, False, "", [], {}, None, 1.5e-300, -0.0, 2**80, "\\u0000", "💾"]
)
async def test_any_storable_value_survives_the_database(hw, value) -> None:
    @hw.task
    async def echo(value: object) -> object:
        return value

    job = await echo.enqueue(value)
    await hw.run_until_idle()
    assert await job.result() == value


async def test_a_number_is_what_the_signature_says_however_the_database_writes_it(hw) -> None:
    """jsonb writes 1e300 out in full, which reads as a whole number where no type is named."""

    @hw.task
    async def typed(value: float) -> float:
        assert type(value) is float
        return value

    jobs = [await typed.enqueue(value) for value in (1e300, 1.7976931348623157e308, 5e-324, 7)]
    await hw.run_until_idle()
    results = [await job.result() for job in jobs]
    assert results == [1e300, 1.7976931348623157e308, 5e-324, 7.0]
    assert {type(result) for result in results} == {float}


async def test_a_failed_job_raises_with_what_is_stored(hw) -> None:
    @hw.task
    async def broken() -> int:
        raise Fatal("no such customer")

    job = await broken.enqueue()
    await hw.run_until_idle()
    with pytest.raises(
        JobFailed, match=f"job {job.id} failed: headway.errors.Fatal: no such"
    ) as told:
        await job.result()
    assert (told.value.job_id, told.value.state) == (job.id, "failed")
    assert told.value.error == (await job.status()).error
    assert "Traceback" in told.value.error["traceback"]


async def test_a_cancelled_and_an_expired_job_have_errors_of_their_own(hw, start) -> None:
    @hw.task
    async def task() -> None: ...

    cancelled = await task.using(delay="1h").enqueue()
    await cancelled.cancel()
    with pytest.raises(JobCancelled, match="cancelled: Cancelled: cancelled while it waited"):
        await cancelled.result()
    expired = await task.using(delay="1h", ttl=0).enqueue()
    start()
    with pytest.raises(JobExpired, match="expired: Expired: its time to live passed"):
        await expired.result(timeout="60s")


async def test_a_wait_that_is_too_long_ends_and_the_job_goes_on(hw, start) -> None:
    opened = asyncio.Event()

    @hw.task
    async def slow() -> str:
        await opened.wait()
        return "after all"

    start()
    job = await slow.enqueue()
    with pytest.raises(ResultTimeout, match=r"did not finish within 50ms; it goes on") as told:
        await job.result(timeout="50ms")
    assert isinstance(told.value, TimeoutError)
    with pytest.raises(ResultTimeout):
        await job.result(timeout=0)
    opened.set()
    assert await job.result(timeout="60s") == "after all"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each statement is run for user code."""
    counted = Counter[str]()
    run_all, run_all_sync = Client.run_all, Client.run_all_sync

    async def count(self, statements, **options):
        counted.update(statement.name for statement in statements)
        return await run_all(self, statements, **options)

    def count_sync(self, statements, **options):
        counted.update(statement.name for statement in statements)
        return run_all_sync(self, statements, **options)

    monkeypatch.setattr(Client, "run_all", count)
    monkeypatch.setattr(Client, "run_all_sync", count_sync)
    return counted


async def test_a_wait_is_ended_by_a_notification_and_not_by_hammering(hw, start, reads) -> None:
    @hw.task
    async def slow() -> int:
        await asyncio.sleep(1)
        return 1

    start()
    jobs = await slow.enqueue_many([{}] * 10)
    assert await asyncio.gather(*[job.result(timeout="60s") for job in jobs]) == [1] * 10
    # At the start, after the wait was announced, two looks at a settling under way, and at the end.
    assert reads["reads/outcome"] <= 10 * 6


async def test_the_same_for_a_thread_that_waits(hw, start, reads) -> None:
    @hw.task
    async def slow() -> int:
        await asyncio.sleep(1)
        return 1

    start()
    job = await slow.enqueue()
    assert await asyncio.to_thread(job.result_sync, DEADLINE) == 1
    assert reads["reads/outcome"] <= 6


async def test_threads_and_loops_may_wait_for_the_same_job(hw, start) -> None:
    opened = asyncio.Event()

    @hw.task
    async def slow() -> int:
        await opened.wait()
        return 5

    start()
    job = await slow.enqueue()
    waiting = [
        *[asyncio.create_task(asyncio.to_thread(job.result_sync, DEADLINE)) for _ in range(4)],
        *[asyncio.create_task(job.result(timeout="60s")) for _ in range(4)],
    ]
    results = await hw._session.results()
    await eventually(lambda: len(results._waiting.get(str(job.id), ())) == 4)
    opened.set()
    assert await asyncio.gather(*waiting) == [5] * 8


@pytest.mark.parametrize("listen", [True, False])
async def test_results_arrive_without_notifications_too(
    dsn: str, schema: str, listen: bool
) -> None:
    async with Headway(dsn, schema=schema, notify=False) as hw:

        @hw.task
        async def task(n: int) -> int:
            return n

        worker = asyncio.create_task(hw.run_worker(signals=False, listen=listen))
        job = await task.enqueue(3)
        assert await job.result(timeout="60s") == 3
        assert await asyncio.to_thread((await task.enqueue(4)).result_sync, DEADLINE) == 4
        worker.cancel()
        await asyncio.wait([worker])


async def test_a_wait_survives_the_loss_of_its_listener(hw, start, db) -> None:
    inside, opened = asyncio.Event(), asyncio.Event()

    @hw.task
    async def slow() -> int:
        inside.set()
        await opened.wait()
        return 9

    start()
    job = await slow.enqueue()
    waiting = asyncio.create_task(job.result(timeout="60s"))
    await asyncio.wait_for(inside.wait(), DEADLINE)
    # The last thing a listener said is its own test call.
    kill = """select pg_terminate_backend(pid) from pg_stat_activity
              where application_name = 'headway' and datname = current_database()
                and query = 'select pg_catalog.pg_notify($1::text, $2::text)'"""
    await eventually(lambda: db.execute(kill).fetchall())
    opened.set()
    assert await waiting == 9


def test_a_result_is_awaited_where_no_loop_runs(dsn: str, schema: str) -> None:
    with Headway(dsn, schema=schema) as hw:

        @hw.task(retry=Retry(max_attempts=1))
        def task(n: int) -> int:
            return 10 // n

        good, bad = task.enqueue_many_sync([{"n": 5}, {"n": 0}])
        worker = threading.Thread(target=hw.run_until_idle_sync)
        worker.start()
        assert good.result_sync(timeout="60s") == 2
        with pytest.raises(JobFailed, match="ZeroDivisionError"):
            bad.result_sync(timeout="60s")
        worker.join()
        with pytest.raises(ResultTimeout):
            task.using(delay="1h").enqueue_sync(1).result_sync(timeout="30ms")


async def test_an_enqueue_of_a_server_that_went_away_and_came_back_is_repeated(hw, dsn, db) -> None:
    """Connections in the pool that the server has closed are not the caller's business."""

    @hw.task
    async def task() -> None: ...

    await task.enqueue()
    mine = (
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'headway'"
    )
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(f"{mine} and datname = current_database()")
    await asyncio.gather(*[task.enqueue() for _ in range(5)])
    assert db.execute("select count(*) from jobs").fetchone() == (6,)
