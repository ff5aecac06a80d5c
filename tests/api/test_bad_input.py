"""Wrong input is refused at the call, before the database is used, with an error that helps."""

import asyncio
import threading
from datetime import datetime
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.errors import (
    ConfigError,
    DatabaseUnavailable,
    InvalidInput,
    JobNotFound,
    PayloadTooLarge,
    SchemaMismatch,
)
from headway.store.migrate import functions, migrations

DEAD = "postgresql://nobody@127.0.0.1:1/none"
MISSING = "0189aaaa-0000-7000-8000-000000000000"


@pytest.fixture
def dead():
    """A task of an app whose server does not answer: reaching for it is an error of another kind."""
    app = Headway(DEAD, max_payload_bytes=1_000)
    app._session.timeout = 0.5

    @app.task
    async def task(number: int, extra: Any = None) -> None: ...

    return task


@pytest.mark.parametrize(
    ("kwargs", "why"),
    [
        ({"number": "one"}, r"Expected `int`, got `str` - at `\$\.number`"),
        ({"number": None}, "Expected `int`, got `null`"),
        ({}, "missing a required argument: 'number'"),
        ({"number": 1, "colour": "red"}, "unexpected keyword argument 'colour'"),
        ({"number": 1, "extra": "a\0b"}, "NUL character"),
        ({"number": 1, "extra": {"a": ["\0"]}}, "NUL character"),
        ({"number": 1, "extra": "\ud800"}, "cannot be stored as JSON"),
        ({"number": 1, "extra": object()}, "object cannot be stored as JSON"),
        ({"number": 1, "extra": threading.Lock()}, "lock cannot be stored as JSON"),
        ({"number": 1, "extra": "x" * 2_000}, "limit of 1,000"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_without_a_server(
    dead, kwargs, why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        await dead.enqueue(**kwargs)
    with pytest.raises(InvalidInput, match=why):
        dead.enqueue_sync(**kwargs)
    with pytest.raises(InvalidInput, match=rf"item 1: .*{why}"):
        await dead.enqueue_many([{"number": 1}, kwargs])
    with pytest.raises(InvalidInput, match=why):
        dead.call(**kwargs)


async def test_a_payload_over_the_limit_has_an_error_of_its_own(dead) -> None:
    with pytest.raises(PayloadTooLarge, match="store the data elsewhere and pass a reference"):
        await dead.enqueue(1, extra="x" * 2_000)


async def test_a_naive_moment_and_a_malformed_duration_are_refused_without_a_server(dead) -> None:
    with pytest.raises(ConfigError, match="has no time zone"):
        dead.using(at=datetime(2030, 1, 1))
    with pytest.raises(ConfigError, match="delay '5 parsecs'"):
        dead.using(delay="5 parsecs")
    with pytest.raises(ConfigError, match="timeout 'soon'"):
        await Headway(DEAD).job(MISSING).result(timeout="soon")


async def test_a_large_payload_is_kept_whole(dsn: str, schema: str) -> None:
    async with Headway(dsn, schema=schema, max_payload_bytes=64 * 1024 * 1024) as hw:

        @hw.task
        async def reverse(data: str) -> str:
            return data[::-1]

        data = "".join(map(chr, range(32, 127))) * 210_000  # 20 MB
        job = await reverse.enqueue(data)
        await hw.run_until_idle()
        assert await job.result() == data[::-1]


async def test_twenty_megabytes_are_over_the_default_limit(hw) -> None:
    @hw.task
    async def task(data: str) -> None: ...

    with pytest.raises(PayloadTooLarge, match=r"is 20,\d+,\d+ bytes"):
        await task.enqueue("x" * 20_000_000)


@pytest.mark.timeout(30)
async def test_a_server_that_cannot_be_reached_is_named(dead) -> None:
    with pytest.raises(
        DatabaseUnavailable, match="check that the server is up and the DSN is right"
    ):
        await dead.enqueue(1)
    with pytest.raises(DatabaseUnavailable):
        await asyncio.to_thread(dead.enqueue_sync, 1)


@pytest.mark.parametrize("dsn", ["nonsense", "postgresql://[", "host=a colour=red"])
def test_a_dsn_that_cannot_be_read_is_refused_with_an_example(dsn: str) -> None:
    app = Headway(dsn)

    @app.task
    def task() -> None: ...

    with pytest.raises(ConfigError, match="write it like postgresql://"):
        task.enqueue_sync()


async def test_a_dsn_never_shows_its_password(dsn: str) -> None:
    app = Headway("postgresql://ada:secret@127.0.0.1:1/none")
    app._session.timeout = 0.5
    assert "secret" not in repr(app._session.target)
    with pytest.raises(DatabaseUnavailable) as refusal:
        await app.open()
    assert "secret" not in str(refusal.value)


async def test_a_missing_schema_says_how_to_make_it(dsn: str) -> None:
    app = Headway(dsn, schema="missing")

    @app.task
    async def task() -> None: ...

    with pytest.raises(
        SchemaMismatch, match=r"no Headway schema 'missing' .* run `headway migrate`"
    ):
        await task.enqueue()
    with pytest.raises(SchemaMismatch):
        task.enqueue_sync()
    with pytest.raises(SchemaMismatch):
        await app.open()


async def test_the_schema_is_made_on_request_and_then_everything_works(dsn: str) -> None:
    app = Headway(dsn, schema="made_here")

    @app.task
    async def task() -> int:
        return 1

    try:
        made = [migration.name for migration in migrations()] + [name for name, _ in functions()]
        assert await app.migrate() == made
        assert await app.migrate() == []
        job = await task.enqueue()
        await app.run_until_idle()
        assert await job.result() == 1
    finally:
        await app.close()
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("drop schema made_here cascade")


async def test_an_unknown_job_is_not_found_by_anything(hw) -> None:
    job = hw.job(MISSING)
    for ask in (job.status, job.cancel, job.retry, job.result):
        with pytest.raises(JobNotFound, match=f"no job {MISSING}"):
            await ask()
    assert await job.attempts() == []
    for ask in (job.status_sync, job.cancel_sync, job.retry_sync, job.result_sync):
        with pytest.raises(JobNotFound):
            await asyncio.to_thread(ask)


@pytest.mark.parametrize("wrong", ["", "42", "not-a-uuid", MISSING + "0"])
def test_what_is_no_id_is_refused(hw, wrong: str) -> None:
    with pytest.raises(ConfigError, match="is not a job id"):
        hw.job(wrong)


@pytest.mark.parametrize("schema", ["Bad", "a b", "", "x" * 60, 'a"b'])
def test_a_schema_name_that_is_not_plain_is_refused_when_the_app_is_made(schema: str) -> None:
    with pytest.raises(ConfigError, match="schema"):
        Headway(DEAD, schema=schema)


async def test_a_worker_without_tasks_is_refused_with_the_likely_reason() -> None:
    with pytest.raises(ConfigError, match="import the modules that define them first"):
        await Headway(DEAD).run_until_idle()
