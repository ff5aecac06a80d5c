"""When connections are opened and closed, and by whom they may be used."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.errors import DatabaseUnavailable, ResultTimeout
from headway.store.connections import answer_limit, pool
from tests.support import eventually, eventually_sync

_MODULE = """
import socket
from headway import Context, Depends, Headway, Retry

def refuse(*args, **kwargs):
    raise AssertionError("a connection was opened")

socket.socket.connect = refuse
import psycopg
psycopg.Connection.connect = psycopg.AsyncConnection.connect = refuse

hw = Headway("postgresql://nobody@127.0.0.1:1/none")

@hw.task(queue="mail", retry=Retry(max_attempts=8), timeout="30s")
async def welcome(ctx: Context, user_id: int, db: str = Depends(lambda: "db")) -> str:
    return "sent"

welcome.using(delay="5m").call(user_id=1)
hw.worker()
print("defined", len(hw.tasks))
"""


def open_connections(dsn: str, name: str) -> int:
    """Connections of this database that have an application name."""
    count = "select count(*) from pg_stat_activity where application_name = %s"
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute(f"{count} and datname = current_database()", [name]).fetchone()
    assert row is not None
    return row[0]


def named(dsn: str, schema: str, name: str, **options) -> Headway:
    return Headway(
        psycopg.conninfo.make_conninfo(dsn, application_name=name), schema=schema, **options
    )


def test_a_module_that_defines_tasks_opens_no_connection(tmp_path) -> None:
    script = tmp_path / "app.py"
    script.write_text(_MODULE)
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("defined 1\n", "")


async def test_a_context_opens_and_closes(dsn: str, schema: str) -> None:
    async with named(dsn, schema, "opened") as hw:

        @hw.task
        async def task() -> None: ...

        await asyncio.gather(*[task.enqueue() for _ in range(30)])
        await eventually(lambda: 1 <= open_connections(dsn, "opened") <= 10)
    await eventually(lambda: open_connections(dsn, "opened") == 0)


async def test_a_context_fails_at_its_start_if_at_all() -> None:
    hw = Headway("postgresql://nobody@127.0.0.1:1/none")
    hw._session.timeout = 0.5
    with pytest.raises(DatabaseUnavailable):
        async with hw:
            pass


async def test_a_pool_is_never_larger_than_it_may_be(dsn: str, schema: str) -> None:
    async with named(dsn, schema, "small", pool_size=2) as hw:

        @hw.task
        async def task() -> None: ...

        await asyncio.gather(*[task.enqueue() for _ in range(50)])
        await eventually(lambda: 1 <= open_connections(dsn, "small") <= 2)


def test_an_app_may_be_used_on_one_event_loop_after_the_other(dsn: str, schema: str) -> None:
    hw = named(dsn, schema, "loops")

    @hw.task
    async def task(n: int) -> int:
        return n

    async def use(n: int) -> int:
        job = await task.enqueue(n)
        worker = asyncio.create_task(hw.run_worker(signals=False))
        try:
            return await job.result(timeout="60s")
        finally:
            worker.cancel()
            await asyncio.wait([worker])
            await hw.close()

    assert [asyncio.run(use(n)) for n in range(3)] == [0, 1, 2]
    eventually_sync(lambda: open_connections(dsn, "loops") == 0)


def test_an_app_that_was_not_closed_works_on_the_next_loop_all_the_same(
    dsn: str, schema: str
) -> None:
    hw = Headway(dsn, schema=schema)

    @hw.task
    async def task(n: int) -> int:
        return n

    async def use(n: int) -> str:
        return (await (await task.enqueue(n)).status()).state

    assert [asyncio.run(use(n)) for n in range(3)] == ["ready"] * 3


@pytest.mark.parametrize("how", ["asyncio.run", "a loop closed by hand"])
def test_r15_loops_leave_nothing_behind_though_nobody_closed_the_app(
    dsn: str, schema: str, how: str
) -> None:
    hw = named(dsn, schema, "many loops")

    @hw.task
    async def task(n: int) -> int:
        return n

    loops: list[weakref.ref[Any]] = []

    async def use(n: int) -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        job = await task.enqueue(n)
        with pytest.raises(ResultTimeout):
            await job.result(timeout="50ms")  # starts a listener
        async with aclosing(hw.pull("nothing")) as pulled:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(pulled), 0.05)

    def by_hand(n: int) -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(use(n))
        loop.close()

    for n in range(5):
        asyncio.run(use(n)) if how == "asyncio.run" else by_hand(n)
    if how == "asyncio.run":
        eventually_sync(lambda: open_connections(dsn, "many loops") == 0)
    else:
        asyncio.run(use(5))  # a closed loop is noticed at the next use
    gc.collect()
    assert [loop() for loop in loops] == [None] * len(loops)
    eventually_sync(lambda: open_connections(dsn, "many loops") == 0)


async def test_an_app_is_opened_again_by_its_next_use(dsn: str, schema: str) -> None:
    hw = Headway(dsn, schema=schema)

    @hw.task
    async def task() -> None: ...

    await hw.open()
    await hw.close()
    job = await task.enqueue()
    assert (await job.status()).state == "ready"
    await hw.close()
    await hw.close()


def test_any_number_of_threads_may_share_an_app(dsn: str, schema: str, db) -> None:
    with named(dsn, schema, "threads", pool_size=3) as hw:

        @hw.task
        def task(n: int) -> None: ...

        together = threading.Barrier(16)

        def produce(n: int) -> list[str]:
            together.wait()
            return [str(task.enqueue_sync(n).id) for _ in range(20)]

        with ThreadPoolExecutor(16) as pool:
            made = [job for jobs in pool.map(produce, range(16)) for job in jobs]
        assert len(set(made)) == 320
        assert db.execute("select count(*) from job").fetchone() == (320,)
        eventually_sync(lambda: 1 <= open_connections(dsn, "threads") <= 3)
    eventually_sync(lambda: open_connections(dsn, "threads") == 0)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_use_its_parent_s_connections(dsn: str, schema: str, db) -> None:
    with named(dsn, schema, "forked") as hw:

        @hw.task
        def task(n: int) -> None: ...

        task.enqueue_sync(0)  # the pool is open and has a connection
        parents = backends(dsn, "forked")
        children = []
        for n in (1, 2, 3):
            if (pid := os.fork()) == 0:
                code = 1
                signal.alarm(30)  # rather dead than hanging
                try:
                    for _ in range(20):
                        task.enqueue_sync(n)
                    code = 0 if parents < backends(dsn, "forked") else 2
                finally:
                    os._exit(code)
            children.append(pid)
        for _ in range(20):
            task.enqueue_sync(0)
        assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0, 0]
        task.enqueue_sync(0)
        counted = db.execute("select count(*), count(distinct input) from job").fetchone()
        assert counted == (82, 4)
        assert parents <= backends(dsn, "forked"), "the parent's connection outlives its children"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_close_its_parent_s_idle_connections(dsn: str, schema: str) -> None:
    """The child's watchdog closes connections that have been idle for a while, but only the child's."""
    with named(dsn, schema, "aged") as hw:

        @hw.task
        def task() -> None: ...

        task.enqueue_sync()
        parents = backends(dsn, "aged")
        if (pid := os.fork()) == 0:
            code = 1
            signal.alarm(30)
            try:
                pool._IDLE_FOR, answer_limit._ROUND = 0.0, 0.05
                task.enqueue_sync()  # starts the watchdog, which closes the connection of this one
                eventually_sync(lambda: backends(dsn, "aged") <= parents)
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert backends(dsn, "aged") == parents


def backends(dsn: str, name: str) -> set[int]:
    with psycopg.connect(dsn, autocommit=True) as conn:
        query = "select pid from pg_stat_activity where application_name = %s"
        found = conn.execute(f"{query} and datname = current_database()", [name])
        return {row[0] for row in found.fetchall()}


def test_leaving_the_context_of_sync_code_closes_its_connections(dsn: str, schema: str) -> None:
    with named(dsn, schema, "sync") as hw:

        @hw.task
        def task() -> None: ...

        task.enqueue_sync()
        assert open_connections(dsn, "sync") == 1
    eventually_sync(lambda: open_connections(dsn, "sync") == 0)
