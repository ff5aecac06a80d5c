"""The environment is not trusted: settings, encodings and publications of a database change nothing."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from headway import Context, Headway, Limit, Task
from headway.embedded.binaries import find_binaries
from headway.store import migrate
from headway.store.connections.connect import AsyncConn, SyncConn
from tests.fixtures.processes import WorkerProcess
from tests.store.conftest import Make
from tests.support import eventually

_FAR = datetime(2100, 1, 1, tzinfo=UTC)


_BY_SQL = (
    """select headway.enqueue('add', '{"a": 1}', queue => 'sql', ttl => '1 hour')""",
    """select headway.enqueue_many('[{"task": "add", "queue": "sql", "unique_key": "u"}]')""",
    "insert into headway.inbox (task, queue, concurrency_key) values ('add', 'sql', 'k')",
    "select headway.pause('sql', reason => 'r'), headway.resume('sql')",
    "select headway.set_limit('sql', 5, rate => '1000/MIN'), headway.reset_limit('sql')",
    "select headway.sweep(), headway.metrics('sql')",
    "select headway.explain(id) from headway.jobs",
    "select headway.cancel(headway.enqueue('add', queue => 'other'))",
)


def _works_by_sql(dsn: str) -> None:
    """The functions for SQL, in a session that has the settings of the database."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        # The caller decides these. Keyed jobs are admitted only at read committed.
        conn.execute("set default_transaction_read_only = off")
        conn.execute("set default_transaction_isolation = 'read committed'")
        names = "'statement_timeout', 'lock_timeout', 'transaction_timeout'"
        conn.execute(
            f"select set_config(name, '0', false) from pg_settings where name in ({names})"
        )
        for query in _BY_SQL:
            conn.execute(query)
        claimed = conn.execute("select id, claim from headway.claim('sql', 9)").fetchall()
        assert len(claimed) == 3
        for job in claimed:
            assert conn.execute("select headway.complete(%s, %s)", job).fetchall() == [(True,)]


async def _works(dsn: str) -> None:
    """Tasks, keys, limits, schedules, retries, results and readers, all on this database."""
    _works_by_sql(dsn)
    async with Headway(dsn) as hw:
        tried: list[str] = []

        @hw.task
        async def add(a: int, b: int) -> int:
            return a + b

        @hw.task(concurrency_key="one")
        async def keyed(name: str) -> str:
            return name

        @hw.task(limit=Limit(concurrency=1, rate="1000/MIN"))
        async def limited(name: str) -> str:
            if not tried:
                tried.append(name)
                raise ValueError("once")
            return name

        @hw.task(transaction=True)
        async def committed(ctx: Context) -> bool:
            cursor = await cast(AsyncConn, ctx.conn).execute("select now(), interval '-1 d 2 s'")
            return (await cursor.fetchone() or ())[1] == timedelta(days=-1, seconds=2)

        @hw.task(transaction=True)
        def committed_in_a_thread(ctx: Context) -> bool:
            cursor = cast(SyncConn, ctx.conn).execute("select now(), interval '-1 d 2 s'")
            return (cursor.fetchone() or ())[1] == timedelta(days=-1, seconds=2)

        await hw.schedules.put("tick", "add", "@every 1h", input={"a": 1, "b": 1})
        made = [
            await add.enqueue(1, 2),
            await add.using(delay="1ms").enqueue(3, 4),
            await keyed.enqueue("k"),
            await limited.enqueue("l"),
            await committed.enqueue(),
            await committed_in_a_thread.enqueue(),
        ]
        worker = hw.worker(poll="100ms", grace="1s")
        running = asyncio.create_task(worker.run())
        assert [await job.result(timeout="90s") for job in made] == [3, 7, "k", "l", True, True]
        fired = await hw.schedules.run("tick")
        assert await fired.result(timeout="90s") == 2
        assert (await made[3].status()).attempt == 2
        assert len(await made[3].history()) == 1
        assert [row.name for row in await hw.controls.list()] == ["limited"]
        assert [row.name for row in await hw.schedules.list()] == ["tick"]
        worker.stop()
        await running


@pytest.mark.parametrize(
    "settings",
    [
        {"datestyle": "'German'"},
        {"datestyle": "'SQL, DMY'", "intervalstyle": "'sql_standard'"},
        {"default_transaction_read_only": "on"},
        {"search_path": "''"},
        {"bytea_output": "'escape'", "extra_float_digits": "-3", "quote_all_identifiers": "on"},
        {"default_transaction_isolation": "'serializable'"},
        {"standard_conforming_strings": "off"},
        {"timezone": "'Pacific/Chatham'", "lc_time": "'C'"},
        {"default_transaction_isolation": "'repeatable read'"},
        {"client_encoding": "'LATIN1'"},
        {"statement_timeout": "'50ms'"},
        {"lock_timeout": "'1ms'"},
        {"transaction_timeout": "'100ms'"},
        {"plan_cache_mode": "'force_generic_plan'", "jit": "on", "jit_above_cost": "0"},
        {"plan_cache_mode": "'force_custom_plan'", "work_mem": "'64kB'", "row_security": "off"},
        {"plpgsql.variable_conflict": "'use_variable'"},
        {"plpgsql.variable_conflict": "'use_column'"},
        {  # without the compiler, which plans of such a cost would call
            "jit": "off",
            **dict.fromkeys(("enable_seqscan", "enable_indexscan", "enable_indexonlyscan"), "off"),
            **dict.fromkeys(("enable_bitmapscan", "enable_tidscan", "enable_sort"), "off"),
        },
    ],
    ids=lambda settings: "+".join(f"{name}={value}" for name, value in settings.items()),
)
async def test_s14_s27_settings_of_the_database_change_nothing(
    dsn: str, database: Make, settings: dict[str, str]
) -> None:
    """The 19 that the audit tried, and more. Settings that have no part in each other share a case."""
    if "transaction_timeout" in settings:
        _require_transaction_timeout(dsn)
    await _works(database(settings=settings))


def test_a_call_that_the_server_ends_for_its_length_is_made_again(dsn: str, database: Make) -> None:
    _require_transaction_timeout(dsn)
    own = database(settings={"transaction_timeout": "'100ms'"})
    slow_once = """
        create sequence public.made;
        create function public.slow_once() returns trigger language plpgsql as $$
        begin
          if nextval('public.made') = 1 then perform pg_sleep(60); end if;
          return new;
        end $$;
        create trigger slow_once before insert on headway.job
        for each row execute function public.slow_once()"""
    with psycopg.connect(own, autocommit=True) as conn, Headway(own) as hw:
        conn.execute(slow_once)
        hw.task(name="add")(lambda: None).enqueue_sync()
        assert conn.execute("select count(*) from headway.job").fetchall() == [(1,)]
        assert conn.execute("select last_value from public.made").fetchall() == [(2,)]


def test_no_plan_of_a_function_that_turns_scans_off_is_compiled(database: Make) -> None:
    """Without them a plan costs so much that compiling it seems worth it: `claim` took six seconds."""
    query = """
        select proname from pg_proc
        where pronamespace = 'headway'::regnamespace and proconfig::text like '%enable_%'
          and not 'jit=off' = any (proconfig)"""
    with psycopg.connect(database()) as conn:
        assert conn.execute(query).fetchall() == []


async def test_sessions_that_the_server_ends_for_idleness_change_nothing(database: Make) -> None:
    dsn = database(settings={"idle_session_timeout": "'1s'"})
    async with Headway(dsn) as hw:

        @hw.task
        async def add(a: int, b: int) -> int:
            return a + b

        worker = hw.worker(poll="100ms", grace="1s")
        running = asyncio.create_task(worker.run())
        assert await (await add.enqueue(1, 2)).result(timeout="90s") == 3
        before = _sessions(dsn)
        await eventually(lambda: before - _sessions(dsn))
        assert await (await add.enqueue(3, 4)).result(timeout="90s") == 7
        worker.stop()
        await running
    await _works(dsn)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "UTF8"])
async def test_s7_any_encoding_of_the_database_runs_jobs(database: Make, encoding: str) -> None:
    await _works(database(f"encoding '{encoding}' locale 'C'"))


_COLLATIONS = {
    "C": "locale 'C'",
    "C.utf8": "locale 'C.UTF-8'",
    "tr_TR.utf8": "locale 'tr_TR.UTF-8'",
    "tr-TR-x-icu": "locale_provider icu icu_locale 'tr-TR' locale 'C'",
    "pg_c_utf8": "locale_provider builtin builtin_locale 'C.UTF-8' locale 'C'",
    "pg_unicode_fast": "locale_provider builtin builtin_locale 'PG_UNICODE_FAST' locale 'C'",
}
"""Options that make a database of a collation, by its name in pg_collation."""


async def test_s32_any_collation_that_the_server_has_runs_jobs(dsn: str, database: Make) -> None:
    """ICU where the server was built with it: PostgreSQL has it for whole databases from 15 on."""
    with psycopg.connect(dsn) as conn:
        query = "select collname from pg_collation where collname = any(%s) order by 1"
        found = [name for (name,) in conn.execute(query, [list(_COLLATIONS)])]
        if conn.info.server_version < 150_000:
            found = [name for name in found if not name.endswith("-icu")]
    assert "C" in found
    for name in found:
        await _works(database(f"encoding 'UTF8' {_COLLATIONS[name]}"))


async def test_s6_a_publication_of_all_tables_stops_nothing(database: Make) -> None:
    dsn = database()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("create publication everything for all tables")
        without = conn.execute(
            "select c.relname from pg_class c where c.relnamespace = 'headway'::regnamespace "
            "and c.relkind = 'r' and c.relreplident = 'd' and not exists "
            "(select 1 from pg_index i where i.indrelid = c.oid and i.indisprimary)"
        ).fetchall()
        assert without == []
        await _works(dsn)
        conn.execute("select headway.sweep()")
        conn.execute("delete from headway.archive")


async def test_g3_a_dump_of_live_jobs_is_restored_and_every_job_ends(
    database: Make, spawn_worker: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    """By pg_dump and pg_restore. A job whose worker is gone runs again in the copy, after the lease that
    the worker had."""
    source, copy = database(), database(empty=True)
    async with Headway(source) as hw:
        tasks = _tasks(hw, broken=True)
        failed, done = await tasks["fail"].enqueue(), await tasks["echo"].enqueue("done")
        await hw.run_until_idle()
        gone = spawn_worker("tests.cli.shop:hw", "--lease", "3s", dsn=source, schema="headway")
        claimed = await tasks["hold"].enqueue(str(tmp_path))
        await eventually((tmp_path / f"began-{claimed.id}").exists)
        gone.kill()
        waiting = {
            "ready": await tasks["echo"].enqueue("ready"),
            "scheduled": await tasks["echo"].using(delay="1ms").enqueue("scheduled"),
            "blocked": await tasks["keyed"].enqueue("blocked"),
            "running": claimed,
        }
        later = await tasks["echo"].using(at=_FAR).enqueue("later")

        @hw.task(transaction=True)
        async def committed(ctx: Context) -> bool:
            cursor = await cast(AsyncConn, ctx.conn).execute("select now(), interval '-1 d 2 s'")
            return (await cursor.fetchone() or ())[1] == timedelta(days=-1, seconds=2)

        @hw.task(transaction=True)
        def committed_in_a_thread(ctx: Context) -> bool:
            cursor = cast(SyncConn, ctx.conn).execute("select now(), interval '-1 d 2 s'")
            return (cursor.fetchone() or ())[1] == timedelta(days=-1, seconds=2)

        await hw.schedules.put("tick", "echo", "@every 1h", input={"word": "tick"})
        states = {state: (await job.status()).state for state, job in waiting.items()}
        assert states == {state: state for state in waiting}
    _copy(source, copy, tmp_path / "dump")
    with psycopg.connect(copy) as conn:
        row = conn.execute("select max(expires_at) from headway.worker").fetchone()
        assert row is not None

    async with Headway(copy) as hw:
        _tasks(hw, broken=False)
        worker = hw.worker(poll="100ms", grace="1s")
        running = asyncio.create_task(worker.run())
        for state, job in waiting.items():
            assert await hw.job(job.id).result(timeout="90s") == state
        started_at = (await hw.job(claimed.id).status()).started_at
        assert started_at is not None
        assert started_at > row[0]
        assert await hw.job(done.id).result() == "done"
        assert (await hw.job(failed.id).status()).state == "failed"
        assert await hw.job(failed.id).retry()
        assert await hw.job(failed.id).result(timeout="90s") == "mended"
        kept = await hw.job(later.id).status()
        assert (kept.state, kept.run_at) == ("scheduled", _FAR)
        assert await (await hw.schedules.run("tick")).result(timeout="90s") == "tick"
        worker.stop()
        await running


def _tasks(hw: Headway, *, broken: bool) -> dict[str, Task[..., Any]]:
    async def echo(word: str) -> str:
        return word

    async def hold(place: str) -> str:
        return "running"

    async def fail() -> str:
        if broken:
            raise ValueError("no")
        return "mended"

    return {
        "echo": hw.task(name="echo")(echo),
        "keyed": hw.task(name="keyed", concurrency_key="one")(echo),
        "hold": hw.task(name="hold")(hold),
        "fail": hw.task(name="fail", retry=1)(fail),
    }


def _copy(source: str, target: str, file: Path) -> None:
    programs = find_binaries().bin
    dump = [programs / "pg_dump", "--format=custom", f"--file={file}", f"--dbname={source}"]
    restore = [programs / "pg_restore", "--exit-on-error", f"--dbname={target}", file]
    for command in (dump, restore):
        subprocess.run(command, check=True)


def _require_transaction_timeout(dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        if conn.info.server_version < 170_000:
            pytest.skip("PostgreSQL has transaction_timeout from version 17 on")


def _sessions(dsn: str) -> set[int]:
    """The sessions of others in this database."""
    query = (
        "select pid from pg_stat_activity where datname = current_database() "
        "and backend_type = 'client backend' and pid <> pg_backend_pid()"
    )
    with psycopg.connect(dsn) as conn:
        return {pid for (pid,) in conn.execute(query)}


def test_s5_no_function_of_another_schema_is_taken_for_one_of_the_servers(database: Make) -> None:
    """A stranger who may create in public cannot have the migrator or a worker run a function."""
    dsn = database()
    trap = """
        create table public.trapped (who text);
        create function public.hashtextextended(text, integer) returns bigint language plpgsql as $$
        begin insert into public.trapped values (current_user); return 1; end $$;
        create function public.trap(bigint, double precision) returns double precision
        language plpgsql as $$
        begin insert into public.trapped values (current_user); return 1; end $$;
        create operator public./
          (function = public.trap, leftarg = bigint, rightarg = double precision)"""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(trap)
        migrate.run_sync(dsn, "headway2")
        hw = Headway(dsn)

        @hw.task(concurrency_key="one")
        def keyed() -> None: ...

        @hw.task(limit=Limit(rate="1000/s"))
        def rated() -> None: ...

        keyed.enqueue_sync()
        rated.enqueue_sync()
        assert hw.run_until_idle_sync().total == 2
        hw.close_sync()
        assert conn.execute("select * from public.trapped").fetchall() == []
