"""Enqueue, in all its shapes."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from headway import Context, Headway, Retry
from headway.errors import ConfigError, InvalidInput, UnknownTask


@pytest.fixture
def echo(hw: Headway):
    @hw.task
    async def echo(text: str, times: int = 1) -> str:
        return text * times

    return echo


async def test_a_job_exists_once_enqueue_returns_and_its_id_is_a_uuid_of_version_7(
    hw, echo, db
) -> None:
    job = await echo.enqueue("a", times=2)
    assert job.id.version == 7
    stored = db.execute("select id, task, queue, state, priority, input from jobs").fetchall()
    assert stored == [(job.id, "echo", "default", "ready", 0, {"text": "a", "times": 2})]


async def test_a_job_runs_and_its_result_is_kept(hw, echo, start) -> None:
    start()
    job = await echo.enqueue("ab", times=2)
    assert await job.result(timeout="60s") == "abab"
    assert (await job.status()).result == "abab"


def test_the_same_without_an_event_loop(dsn: str, schema: str) -> None:
    with Headway(dsn, schema=schema) as hw:

        @hw.task
        def double(a: int) -> int:
            return 2 * a

        job = double.enqueue_sync(21)
        assert job.status_sync().state == "ready"
        hw.run_until_idle_sync()
        assert job.result_sync(timeout="60s") == 42
        assert job.status_sync().state == "succeeded"
        assert job.attempts_sync() == []


async def test_jobs_are_enqueued_by_the_name_of_their_task(hw, echo) -> None:
    job = await hw.enqueue("echo", text="x")
    await hw.run_until_idle()
    assert await job.result() == "x"
    with pytest.raises(InvalidInput, match="missing a required argument: 'text'"):
        await hw.enqueue("echo")
    with pytest.raises(UnknownTask, match="no task 'ecco' in this app; it knows echo"):
        await hw.enqueue("ecco", text="x")


async def test_a_task_is_still_a_function(hw, echo) -> None:
    assert await echo("a", 3) == "aaa"
    assert echo.__name__ == "echo"
    assert repr(echo) == "<Task echo>"


def test_two_tasks_of_one_name_are_refused(hw) -> None:
    @hw.task(name="mail")
    def one() -> None: ...

    with pytest.raises(ConfigError, match="there is a task or flow 'mail' already"):

        @hw.task(name="mail")
        def two() -> None: ...


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_a_coroutine_function_runs_on_the_loop_only(hw, executor: str) -> None:
    with pytest.raises(ConfigError, match="is a coroutine function and cannot run with executor"):

        @hw.task(executor=executor)
        async def task() -> None: ...


def test_a_plain_function_does_not_run_on_the_loop(hw) -> None:
    with pytest.raises(ConfigError, match="is a plain function and cannot run with executor"):

        @hw.task(executor="async")
        def task() -> None: ...


async def test_options_of_the_task_hold_unless_the_call_has_its_own(hw) -> None:
    @hw.task(queue="mail", priority=3, retry=Retry(max_attempts=8), ttl="1h")
    async def task() -> None: ...

    plain = await (await task.enqueue()).status()
    assert (plain.queue, plain.priority, plain.max_attempts) == ("mail", 3, 8)
    assert plain.expires_at == plain.created_at + timedelta(hours=1)

    using = task.using(queue="slow", priority=0, retry=Retry(max_attempts=1), ttl="1d")
    own = await (await using.enqueue()).status()
    assert (own.queue, own.priority, own.max_attempts) == ("slow", 0, 1)
    assert own.expires_at == own.created_at + timedelta(days=1)


async def test_a_delay_counts_from_the_database_s_now(hw, echo, db) -> None:
    job = await echo.using(delay="10m").enqueue("later")
    status = await job.status()
    assert status.state == "scheduled"
    assert status.run_at == status.created_at + timedelta(minutes=10)
    (now,) = db.execute("select now()").fetchone()
    assert abs(now - status.created_at) < timedelta(minutes=1)


async def test_a_moment_is_kept_exactly_and_a_past_one_is_now(hw, echo) -> None:
    moment = datetime(2090, 5, 17, 8, 30, 15, 123456, tzinfo=UTC)
    later = await (await echo.using(at=moment).enqueue("x")).status()
    assert (later.state, later.run_at) == ("scheduled", moment)
    past = await (await echo.using(at=moment.replace(year=1990)).enqueue("x")).status()
    assert past.state == "ready"


async def test_headers_timeout_and_retry_reach_the_worker(hw, start) -> None:
    seen: list[object] = []

    @hw.task(timeout="1h")
    async def task(ctx: Context) -> None:
        seen.append((dict(ctx.headers), ctx.deadline, ctx.max_attempts))
        raise ValueError

    headers = {"trace": "abc", "größe": "✓"}
    retry = Retry(max_attempts=2, backoff="constant", base=0, jitter=0)
    before = datetime.now(UTC)
    await task.using(headers=headers, timeout="5m", retry=retry).enqueue()
    await hw.run_until_idle()
    assert len(seen) == 2
    for got, deadline, attempts in seen:
        assert got == headers
        assert before < deadline < datetime.now(UTC) + timedelta(minutes=5)
        assert attempts == 2


@pytest.mark.parametrize(
    "options",
    [
        {"delay": "soon"},
        {"delay": -1},
        {"at": datetime(2030, 1, 1)},
        {"at": "2030-01-01"},
        {"delay": 1, "at": datetime(2030, 1, 1, tzinfo=UTC)},
        {"priority": 100_000},
        {"priority": "high"},
        {"queue": ""},
        {"queue": "\ud800"},
        {"timeout": "1 fortnight"},
        {"ttl": "x"},
    ],
)
def test_options_that_cannot_be_right_are_refused_before_anything_is_called(
    hw, echo, options
) -> None:
    with pytest.raises(ConfigError):
        echo.using(**options)


@pytest.mark.parametrize("headers", [{"a": 1}, {1: "a"}, {"a": "\0"}, {"a": "\ud800"}])
def test_headers_that_are_not_storable_text_are_refused(hw, echo, headers) -> None:
    with pytest.raises(InvalidInput):
        echo.using(headers=headers)


async def test_a_retry_policy_with_code_in_it_belongs_on_the_task(hw, echo) -> None:
    with pytest.raises(ConfigError, match="put those on the task itself"):
        await echo.using(retry=Retry(backoff=lambda n: n)).enqueue("x")


async def test_nothing_of_the_caller_s_database_is_changed(hw, echo, dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        await conn.execute("set search_path = pg_catalog")
        await echo.using(conn=conn).enqueue("x")
        row = await (await conn.execute("show search_path")).fetchone()
        assert row == ("pg_catalog",)
        await conn.rollback()
