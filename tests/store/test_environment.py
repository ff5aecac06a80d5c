"""The environment is not trusted: settings, encodings and publications of a database change nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from headway import Headway, Limit
from headway.store import migrate

Make = Callable[..., str]


@pytest.fixture
def database(dsn: str) -> Iterator[Make]:
    """Gives databases of their own, with a schema in each."""
    made: list[str] = []

    def make(options: str = "", *, settings: dict[str, str] | None = None) -> str:
        name = f"hw_environment_{os.getpid()}_{len(made)}"
        made.append(name)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(f"create database {name} template template0 {options}")  # type: ignore[arg-type]
            for setting, value in (settings or {}).items():
                conn.execute(f"alter database {name} set {setting} = {value}")  # type: ignore[arg-type]
        own = make_conninfo(dsn, dbname=name)
        migrate.run_sync(own, "headway")
        return own

    yield make
    with psycopg.connect(dsn, autocommit=True) as conn:
        for name in made:
            query = sql.SQL("drop database {} with (force)")
            conn.execute(query.format(sql.Identifier(name)))


async def _works(dsn: str) -> None:
    """Tasks, keys, limits, schedules, retries, results and readers, all on this database."""
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

        await hw.schedules.put("tick", "add", "@every 1h", input={"a": 1, "b": 1})
        made = [
            await add.enqueue(1, 2),
            await add.using(delay="1ms").enqueue(3, 4),
            await keyed.enqueue("k"),
            await limited.enqueue("l"),
        ]
        worker = hw.worker(poll="100ms", grace="1s")
        running = asyncio.create_task(worker.run())
        assert [await job.result(timeout="90s") for job in made] == [3, 7, "k", "l"]
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
    ],
    ids=lambda settings: "+".join(settings),
)
async def test_s14_s27_settings_of_the_database_change_nothing(
    database: Make, settings: dict[str, str]
) -> None:
    await _works(database(settings=settings))


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "UTF8"])
async def test_s7_any_encoding_of_the_database_runs_jobs(database: Make, encoding: str) -> None:
    await _works(database(f"encoding '{encoding}' locale 'C'"))


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
