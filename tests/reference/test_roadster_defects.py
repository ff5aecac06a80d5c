"""The defects of roadster's workers that are about jobs and queues: Headway has none of them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click.testing
import psycopg
import pytest

from headway import Context, Headway, Retention, Retry, Unique
from headway.cli.root import root
from headway.errors import JobNotFound
from tests.reference.scenes import work_of
from tests.store.store import Store
from tests.support import DEADLINE, eventually

ONCE = Retry(max_attempts=1)


async def test_rd1_a_job_is_heard_of_and_not_polled_for(hw: Headway, start: Any) -> None:
    """Roadster: polls each queue every ten seconds. Headway: a worker that hardly ever polls runs a job
    of any of its queues as soon as it is there."""
    work = work_of(hw)
    start(queues={f"queue {n}": 1 for n in range(20)}, poll="1h")
    for n in (7, 19):
        job = await work.using(queue=f"queue {n}").enqueue(n)
        assert await job.result(timeout=DEADLINE) == n


async def test_rd1_jobs_come_and_go_in_batches(hw: Headway, db: psycopg.Connection[Any]) -> None:
    """Roadster: one is read at a time, and one or two statements more for each. Headway: some hundred
    jobs are claimed and settled in a few round trips."""
    await work_of(hw).enqueue_many([{"number": n} for n in range(300)])
    report = await hw.run_until_idle()
    assert report.total == 300
    written = db.execute("select count(distinct xmin::text), count(*) from archive").fetchone()
    assert written is not None
    assert written[0] < 100
    assert written[1] == 300


async def test_rd2_a_job_that_outlasts_its_lease_runs_once(
    hw: Headway, start: Any, db: psycopg.Connection[Any]
) -> None:
    """Roadster: what takes longer than the timeout runs twice at once. Headway: a lease is renewed for as
    long as the worker lives; a timeout is another matter, and there is none by default."""
    ran, release = list[int](), asyncio.Event()

    @hw.task
    async def work(ctx: Context) -> int:
        ran.append(ctx.attempt)
        await release.wait()
        return ctx.attempt

    for _ in range(2):
        start(lease="6s")  # a busy machine may stop for a second or two
    job = await work.enqueue()
    await eventually(lambda: ran)
    first = db.execute("select max(expires_at) from worker").fetchone()
    assert first is not None
    over = "select clock_timestamp() > %s + interval '0.5 s'"
    await eventually(lambda: db.execute(over, first).fetchone() == (True,))
    release.set()
    assert await job.result(timeout=DEADLINE) == 1
    assert ran == [1]


def test_rd2_who_comes_late_settles_nothing(store: Store, worker: int) -> None:
    """Roadster: delete, archive and set_vt by id alone. Headway: by id and claim number (G2)."""
    late = store.held(worker)
    store.settle(late, "retry", delay=0)
    (current,) = store.claim(worker)
    before = store.everything()
    for kind in ("succeed", "fail", "retry", "cancel"):
        assert not store.settle(late, kind)
    assert store.everything() == before
    assert store.settle(current, "succeed")


async def test_rd3_a_job_is_made_in_the_callers_transaction_and_is_known_by_its_id(
    hw: Headway, dsn: str
) -> None:
    """Roadster: neither; an enqueue returns nothing. Headway: both; with result and error to ask for."""
    work = work_of(hw)
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        kept = await work.using(conn=conn).enqueue(1)
        await conn.commit()
        dropped = await work.using(conn=conn).enqueue(2)
        await conn.rollback()
    await hw.run_until_idle()
    assert await kept.result() == 1
    with pytest.raises(JobNotFound):
        await dropped.status()


async def test_rd3_the_same_job_is_not_made_twice_and_the_urgent_one_runs_first(
    hw: Headway,
) -> None:
    """Roadster: no deduplication, no priority. Headway: both (progress and cancelling are UD9)."""
    ran: list[int] = []

    @hw.task
    async def work(number: int) -> None:
        ran.append(number)

    once = work.using(unique=Unique("invoice 7"))
    first, second = await once.enqueue(7), await once.enqueue(7)
    await work.using(priority=9).enqueue(1)
    await hw.run_until_idle(concurrency=1)
    assert (first, ran) == (second, [1, 7])


async def test_rd3_the_reason_of_a_failure_is_kept_with_the_job(hw: Headway) -> None:
    """Roadster: the archive holds the arguments and nothing else. Headway: error and traceback (G7)."""

    @hw.task(retry=ONCE)
    async def work(number: int) -> None:
        raise ValueError(f"no customer {number}")

    job = await work.enqueue(7)
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.input) == ("failed", {"number": 7})
    assert status.error is not None
    assert (status.error["type"], status.error["message"]) == ("ValueError", "no customer 7")
    assert "raise ValueError" in status.error["traceback"]


def test_rd4_delays_have_fractions_and_a_cap_whatever_their_shape() -> None:
    """Roadster: an offset below a second panics and ends the application, a base below one is nothing,
    and a cap counts only beside a strategy. Headway: numbers."""
    short = Retry(base="250ms", cap="0.6s", jitter=0)
    assert [short.delay(attempt, 0) for attempt in (1, 2, 3, 4)] == [0.25, 0.5, 0.6, 0.6]
    for shape in ("exponential", "linear", "constant"):
        assert Retry(backoff=shape, base="1s", cap="1s", jitter=0).delay(3, 0) == 1
        assert Retry(backoff=shape, base="1ms", jitter=1).delay(1, 0.5) == 0.0005
    assert Retry(backoff=lambda attempt: attempt * 1e9, cap="1s", jitter=0).delay(1, 0) == 1


async def test_rd4_a_policy_that_breaks_ends_its_job_and_no_worker(hw: Headway, start: Any) -> None:
    """Roadster: a panic while computing a delay ends the worker task, and with it everything. Headway:
    the job fails and says so."""

    def broken(attempt: int) -> float:
        raise ZeroDivisionError("no such delay")

    @hw.task(retry=Retry(backoff=broken))
    async def fails() -> None:
        raise OSError("no answer")

    worker = start()
    job = await fails.enqueue()

    async def ended() -> bool:
        return (await job.status()).finished

    await eventually(ended)
    status = await job.status()
    assert status.error is not None
    assert (status.state, status.error["type"]) == ("failed", "OSError")
    assert "no such delay" in status.error["message"]
    assert not worker.done()


async def test_rd4_what_becomes_of_a_success_says_nothing_of_a_failure(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Roadster: left open, both actions are whichever was asked for first. Headway: two fields, each of
    the task, else of the app, else with a default of its own."""

    async def work(fails: bool) -> None:
        if fails:
            raise OSError

    kinds: dict[str, dict[str, Any]] = {
        "open": {},
        "no success": {"keep": None},
        "no failure": {"keep": Retention(failed=None)},
        "neither": {"keep": Retention(succeeded=None, failed=None)},
    }
    for name, options in kinds.items():
        task = hw.task(name=name, retry=ONCE, **options)(work)
        await task.enqueue_many([{"fails": False}, {"fails": True}])
    await hw.run_until_idle()
    kept = db.execute("select task, array_agg(state order by state) from jobs group by 1")
    assert dict(kept.fetchall()) == {
        "open": ["failed", "succeeded"],
        "no success": ["failed"],
        "no failure": ["succeeded"],
    }


async def test_rd6_a_task_of_a_newer_deploy_waits_for_it_unharmed(
    hw: Headway, dsn: str, schema: str
) -> None:
    """Roadster: a worker that is not registered burns retries, then the job is archived. Headway: an old
    node leaves it alone (decision 46), and health says that nobody there knows it."""
    work_of(hw)
    async with Headway(dsn, schema=schema) as newer:

        @newer.task
        async def brand_new() -> str:
            return "ran"

        job = await brand_new.using(retry=ONCE).enqueue()
        assert (await hw.run_until_idle()).total == 0
        status = await job.status()
        assert (status.state, status.attempt) == ("ready", 0)
        await newer.run_until_idle()
        assert await job.result() == "ran"


async def test_rd7_a_queue_that_nobody_has_filled_yet_is_served(
    hw: Headway, start: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Roadster: a queue that is configured and not registered is never created, and reading it fails for
    ever. Headway: a queue is a name; a worker waits for its first job."""
    work = work_of(hw)
    worker = start(queues={"not yet": 1}, dedicated={"nor this": 1}, poll="1h")
    await eventually(lambda: worker.worker.id)
    for queue in ("not yet", "nor this"):
        job = await work.using(queue=queue).enqueue(3)
        assert await job.result(timeout=DEADLINE) == 3
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


def test_rd8_jobs_queues_and_health_have_commands_and_figures(dsn: str, schema: str) -> None:
    """Roadster: no command for jobs, no metrics, and health is a ping. Headway: all three; a queue that
    nobody serves is found (the endpoint for Prometheus is in tests/health)."""

    def headway(*words: str, code: int = 0) -> Any:
        place = ["--dsn", dsn, "--schema", schema]
        result = click.testing.CliRunner().invoke(root, [*words, "--json", *place])
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    with Headway(dsn, schema=schema) as app:
        job = work_of(app).using(queue="mail").enqueue_sync(7)
        figures = app.queues.metrics_sync("mail")
        assert (figures.ready, figures.oldest_ready_age is not None) == (1, True)
    assert [row["id"] for row in headway("job", "list")] == [str(job.id)]
    assert [(row["name"], row["ready"]) for row in headway("queue", "list")] == [("mail", 1)]
    health = headway("health", code=1)
    assert health["ok"] is False
    assert [found["status"] for found in health["findings"] if found["about"] == "workers"] == [
        "wrong"
    ]
