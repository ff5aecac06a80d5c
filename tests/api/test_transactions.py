"""G1: a job exists if and only if the caller's transaction commits."""

import psycopg
import pytest
from psycopg.rows import dict_row, namedtuple_row
from psycopg_pool import AsyncConnectionPool

from headway import Headway
from headway.errors import ConfigError, JobNotFound, SchemaMismatch
from tests.support import eventually


@pytest.fixture
def note(hw: Headway):
    @hw.task
    async def note(text: str = "") -> str:
        return text

    return note


async def connected(dsn: str, **options) -> psycopg.AsyncConnection:
    return await psycopg.AsyncConnection.connect(dsn, **options)


async def test_g1_a_job_is_there_when_the_transaction_commits_and_not_before(hw, note, dsn) -> None:
    async with await connected(dsn) as conn:
        async with conn.transaction():
            job = await note.using(conn=conn).enqueue("a")
            with pytest.raises(JobNotFound):
                await job.status()
        assert (await job.status()).state == "ready"


async def test_g1_a_job_is_never_there_when_the_transaction_rolls_back(hw, note, dsn, db) -> None:
    async with await connected(dsn) as conn:
        async with conn.transaction() as transaction:
            await note.using(conn=conn).enqueue("a")
            raise psycopg.Rollback(transaction)
        await note.using(conn=conn).enqueue("b")
        await conn.rollback()
    assert db.execute("select count(*) from jobs").fetchone() == (0,)


def test_g1_the_same_on_a_sync_connection(dsn: str, schema: str, db) -> None:
    with Headway(dsn, schema=schema) as hw, psycopg.connect(dsn) as conn:

        @hw.task
        def note(text: str) -> None: ...

        kept = note.using(conn=conn).enqueue_sync("a")
        assert db.execute("select count(*) from jobs").fetchone() == (0,)
        conn.commit()
        note.using(conn=conn).enqueue_sync("b")
        conn.rollback()
        assert db.execute("select id from jobs").fetchall() == [(kept.id,)]


@pytest.mark.parametrize("begun", [False, True])
async def test_g1_many_jobs_of_several_statements_commit_and_roll_back_as_one(
    hw, note, dsn, db, begun: bool
) -> None:
    """Also where the enqueue is the first thing that happens on the connection."""
    many = [{"text": str(n)} for n in range(11_000)]
    async with await connected(dsn) as conn:
        if begun:
            await conn.execute("select 1")
        await note.using(conn=conn).enqueue_many(many)
        assert db.execute("select count(*) from jobs").fetchone() == (0,)
        await conn.rollback()
        assert db.execute("select count(*) from jobs").fetchone() == (0,)
        await note.using(conn=conn).enqueue_many(many)
        await conn.commit()
    assert db.execute("select count(*) from jobs").fetchone() == (11_000,)


@pytest.mark.parametrize("begun", [False, True])
def test_g1_the_same_for_many_on_a_sync_connection(dsn, schema, db, begun: bool) -> None:
    with Headway(dsn, schema=schema) as hw, psycopg.connect(dsn) as conn:

        @hw.task
        def note(n: int) -> None: ...

        if begun:
            conn.execute("select 1")
        note.using(conn=conn).enqueue_many_sync([{"n": n} for n in range(11_000)])
        conn.rollback()
        assert db.execute("select count(*) from jobs").fetchone() == (0,)


async def test_on_a_connection_in_autocommit_a_job_is_there_at_once(hw, note, dsn, db) -> None:
    async with await connected(dsn, autocommit=True) as conn:
        await note.using(conn=conn).enqueue("a")
        await note.using(conn=conn).enqueue_many([{"text": "x"}] * 6_000)
        assert db.execute("select count(*), count(distinct xmin::text) from job").fetchone() == (
            6_001,
            2,
        )


async def test_g1_savepoints_are_respected(hw, note, dsn, db) -> None:
    async with await connected(dsn, autocommit=True) as conn, conn.transaction():
        kept = await note.using(conn=conn).enqueue("outer")
        async with conn.transaction() as savepoint:
            await note.using(conn=conn).enqueue_many([{"text": "inner"}] * 6_000)
            raise psycopg.Rollback(savepoint)
    assert db.execute("select id from jobs").fetchall() == [(kept.id,)]


@pytest.mark.parametrize("row_factory", [dict_row, namedtuple_row])
async def test_the_rows_of_the_caller_s_connection_may_have_any_shape(
    hw, note, dsn, row_factory
) -> None:
    async with await connected(dsn, row_factory=row_factory) as conn:
        job = await note.using(conn=conn).enqueue("a")
        await note.using(conn=conn).enqueue_many([{"text": "b"}] * 6_000)
        await conn.commit()
    assert (await job.status()).state == "ready"
    with psycopg.connect(dsn, row_factory=row_factory) as sync:
        assert (note.using(conn=sync).enqueue_sync("c")).id


async def test_a_connection_from_a_pool_will_do(hw, note, dsn) -> None:
    async with AsyncConnectionPool(dsn, min_size=1, open=False) as pool:
        async with pool.connection() as conn:
            job = await note.using(conn=conn).enqueue("pooled")
        assert (await job.status()).state == "ready"


async def test_g1_a_worker_hears_of_the_job_when_the_transaction_commits(
    hw, note, start, dsn
) -> None:
    start(poll="1h")
    await (await note.enqueue("the worker listens now")).result(timeout="60s")
    async with await connected(dsn) as conn:
        job = await note.using(conn=conn).enqueue("in the transaction")
        # By now it would have looked, had it heard of the job already.
        await (await note.enqueue("meanwhile")).result(timeout="60s")
        await conn.commit()
    assert await job.result(timeout="60s") == "in the transaction"


async def test_a_job_that_commits_after_later_ones_is_found_all_the_same(
    hw, note, start, dsn
) -> None:
    """Its place in the lane is drawn early and becomes visible late, behind the worker's cursor."""
    start(poll="1h")
    async with await connected(dsn) as conn:
        late = await note.using(conn=conn).enqueue("late")
        for n in range(20):
            await (await note.enqueue(str(n))).result(timeout="60s")
        await conn.commit()
    assert await late.result(timeout="60s") == "late"


async def test_an_open_transaction_holds_up_nobody(hw, note, start, dsn) -> None:
    start()
    async with await connected(dsn) as conn:
        await note.using(conn=conn).enqueue("open")
        others = await note.enqueue_many([{"text": "x"}] * 50)
        for job in others:
            await job.result(timeout="60s")


@pytest.mark.parametrize("wrong", [object(), 5])
async def test_what_is_no_connection_is_refused_by_what_it_is(hw, note, wrong) -> None:
    with pytest.raises(ConfigError, match="connection"):
        await note.using(conn=wrong).enqueue("a")
    with pytest.raises(ConfigError, match="connection"):
        note.using(conn=wrong).enqueue_sync("a")


async def test_the_wrong_kind_of_connection_is_refused_with_the_right_call(hw, note, dsn) -> None:
    refused = pytest.raises(ConfigError)
    with psycopg.connect(dsn) as sync, refused:
        await note.using(conn=sync).enqueue("a")
    async with await connected(dsn) as conn:
        with pytest.raises(ConfigError):
            note.using(conn=conn).enqueue_sync("a")


async def test_a_missing_schema_is_named_on_the_caller_s_connection_too(dsn: str) -> None:
    app = Headway(dsn, schema="not_there")

    @app.task
    async def task() -> None: ...

    async with await connected(dsn) as conn:
        with pytest.raises(SchemaMismatch):
            await task.using(conn=conn).enqueue()


async def test_a_failed_transaction_says_so_in_the_driver_s_own_words(hw, note, dsn) -> None:
    """The transaction is the caller's: so are its errors, which the caller may know how to meet."""
    async with await connected(dsn) as conn:
        with pytest.raises(psycopg.Error):
            await conn.execute("select 1/0")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            await note.using(conn=conn).enqueue("a")


async def test_the_caller_s_work_and_the_job_commit_together(hw, start, dsn, db) -> None:
    db.execute("create table account (id int primary key, paid boolean)")
    seen: list[bool] = []

    @hw.task
    def bill(account: int) -> None:
        seen.append(db.execute("select paid from account where id = %s", [account]).fetchone()[0])

    start()
    async with await connected(dsn) as conn:
        await conn.execute(f"insert into {hw._session.target.schema}.account values (1, true)")
        await bill.using(conn=conn).enqueue(1)
        await conn.commit()
    await eventually(lambda: seen)
    assert seen == [True]
