"""Workers start and stop as often as one likes, and leave nothing open."""

import asyncio
import os
import threading

import psycopg
import pytest

from headway import Depends, Headway, Task
from headway.errors import DatabaseUnavailable, SchemaMismatch
from headway.store.statements import inspect
from tests.engine import process_tasks
from tests.support import DEADLINE, eventually

MINE = f"headway worker {os.getpid()}"


def connections(db: psycopg.Connection) -> int:
    count = "select count(*) from pg_stat_activity where application_name = %s"
    row = db.execute(f"{count} and datname = current_database()", [MINE]).fetchone()
    assert row is not None
    return row[0]


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def worker_threads() -> list[str]:
    """Return the threads that a worker should have ended. The watchdog and the bell serve callers."""
    names = {thread.name for thread in threading.enumerate()} - {"headway-watchdog", "headway-bell"}
    return sorted(name for name in names if name.startswith("headway-"))


@pytest.fixture
def task(hw: Headway):
    def pool():
        yield "pool"

    @hw.task
    async def task(n: int, p: str = Depends(pool, scope="worker")) -> int:
        return n

    @hw.task
    def plain(n: int) -> int:
        return n

    task.plain = plain
    return task


async def test_a_worker_started_and_stopped_twenty_times_leaks_nothing(hw, task, db) -> None:
    await hw.open()
    await (await task.enqueue(0)).status()

    async def once(n: int) -> None:
        worker = hw.worker(grace="1s")
        running = asyncio.create_task(worker.run())
        jobs = [await task.enqueue(n), await task.plain.enqueue(n)]
        assert [await job.result(timeout="60s") for job in jobs] == [n, n]
        worker.stop()
        await running

    await once(0)
    await eventually(lambda: connections(db) == 0)
    tasks, files = len(asyncio.all_tasks()), open_files()
    for n in range(20):
        await once(n)
    await eventually(lambda: connections(db) == 0)
    assert len(asyncio.all_tasks()) == tasks
    await eventually(lambda: not worker_threads())
    assert open_files() <= files + 2


async def test_a_worker_that_is_stopped_before_it_has_begun_ends(hw, task, db) -> None:
    for _ in range(5):
        worker = hw.worker()
        running = asyncio.create_task(worker.run())
        worker.stop()
        assert (await asyncio.wait_for(running, DEADLINE)).total == 0
    await eventually(lambda: connections(db) == 0)


async def test_a_worker_that_cannot_begin_says_why_and_leaves_nothing_open(task, dsn, db) -> None:
    for app, error in (
        (Headway("postgresql://nobody@127.0.0.1:1/none"), DatabaseUnavailable),
        (Headway(dsn, schema="not_there"), SchemaMismatch),
    ):
        app.task(name="lonely")(task.definition.function)
        with pytest.raises(error):
            await app.run_worker(signals=False)
    await eventually(lambda: connections(db) == 0)


async def test_several_workers_of_one_process_share_the_work(hw, task, start, db) -> None:
    workers = [start(concurrency=3) for _ in range(4)]
    await eventually(lambda: all(running.worker.id for running in workers))
    jobs = await task.enqueue_many({"n": n} for n in range(500))
    assert [await job.result(timeout="60s") for job in jobs] == list(range(500))
    reports = [await running.stop() for running in workers]
    assert sum(report.total for report in reports) == 500
    assert sum(report.lost for report in reports) == 0
    assert len({running.worker.id for running in workers}) == 4
    await eventually(lambda: connections(db) == 0)


async def test_a_running_worker_holds_few_connections_and_is_listed(hw, task, start, db) -> None:

    running = start()
    await (await task.enqueue(1)).result(timeout="60s")
    await eventually(lambda: 1 <= connections(db) <= 5)
    (row,) = await hw._session.client.run(inspect.workers(None))
    assert (row.id, row.alive, row.slots) == (running.worker.id, True, 100)
    assert (row.queues, row.tasks) == (["default"], ["plain", "task"])
    assert row.name.endswith(f":{os.getpid()}")


async def test_children_end_with_their_worker(hw) -> None:

    whoami = hw.tasks["whoami"] = Task(hw._session, process_tasks.whoami.definition)
    jobs = await whoami.enqueue_many([{}] * 4)
    await hw.run_until_idle(processes=2)
    for pid in {(await job.result())["pid"] for job in jobs}:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
