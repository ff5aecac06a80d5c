"""A firer that dies, or is not answered, or comes back late: its occurrence is there once."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.core.firing import written
from tests.crash.count import worker_ids
from tests.crash.proxy import Proxy, opening
from tests.fixtures.processes import WorkerProcess
from tests.schedules.fleet_app import register
from tests.schedules.fleet_seen import assert_every_one_once, ended, made
from tests.support import Running, eventually

FIRE = "writes/fire"
Spawn = Callable[..., WorkerProcess]


@pytest.fixture
def proxy(dsn: str) -> Iterator[Proxy]:
    with Proxy(dsn) as proxy:
        yield proxy


@pytest.fixture
async def every_second(hw: Headway) -> str:
    """The name of a schedule; all that was missed is made up for."""
    register(hw)
    await hw.schedules.put("every second", "report", "@every 1s", catch_up="all")
    return "every second"


@pytest.fixture
async def far(proxy: Proxy, schema: str) -> AsyncIterator[Headway]:
    """An app that reaches the database through the proxy."""
    app = register(Headway(proxy.dsn, schema=schema))
    yield app
    await app.close()


@pytest.fixture
def worker(spawn_worker: Spawn) -> Spawn:
    """Starts a worker process that looks often and is soon thought lost."""

    def start(**env: str) -> WorkerProcess:
        options = ("--lease", "2s", "--poll", "100ms")
        return spawn_worker("tests.schedules.fleet_app:hw", *options, **env)

    return start


@pytest.mark.slow
async def test_firings_that_are_not_answered_are_made_once(
    far: Headway, db: psycopg.Connection[Any], proxy: Proxy, schema: str, every_second: str
) -> None:
    """The server has moved the schedule and made the job; the firer cannot know and looks again."""
    lost = proxy.lose_reply(opening(FIRE, schema), times=4)
    running = Running(far.worker(poll="100ms"))
    await eventually(lambda: lost.times == 0 and ended(db, every_second) >= 5)
    await running.stop()
    assert assert_every_one_once(db, every_second) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("undone", [False, True], ids=["carried out", "undone"])
async def test_a_firer_that_dies_before_its_commit_leaves_all_or_nothing(
    hw: Headway,
    worker: Spawn,
    db: psycopg.Connection[Any],
    dsn: str,
    schema: str,
    every_second: str,
    undone: bool,
) -> None:
    """Killed while its statement has the schedule's row and waits for a job's unique key; another leaves
    that row alone. The server may carry the statement out or not: the reply is lost."""
    workers = {f"headway worker {one.pid}": one for one in (worker(), worker())}
    await eventually(lambda: ended(db, every_second))
    with psycopg.connect(dsn) as other:
        coming = _take_key(hw, db, other, every_second)
        ((first, backend, behind),) = await eventually(lambda: _waiting(db, schema))
        assert behind == [other.info.backend_pid]
        assert coming not in made(db, every_second)
        workers.pop(first).kill()
        if undone:
            db.execute("select pg_terminate_backend(%s)", (backend,))
        other.rollback()
    await eventually(lambda: made(db, every_second)[-1] > coming)
    assert_every_one_once(db, every_second)


def _take_key(
    hw: Headway, db: psycopg.Connection[Any], other: psycopg.Connection[Any], name: str
) -> datetime:
    """Makes a job with the unique key of an occurrence to come, and leaves the transaction open."""
    while True:
        coming = made(db, name)[-1] + timedelta(seconds=2)
        key = f"{name}@{written(coming)}"
        hw.tasks["report"].using(unique=key, conn=other).enqueue_sync()
        if coming not in made(db, name):
            return coming
        other.rollback()  # it came while we were at it


def _waiting(db: psycopg.Connection[Any], schema: str) -> list[tuple[str, int, list[int]]]:
    """Return the worker that is stuck in a firing: its process, the server's, its blockers."""
    return db.execute(
        """select application_name, pid, pg_blocking_pids(pid) from pg_stat_activity
           where wait_event_type = 'Lock' and starts_with(query, %s) and datname = current_database()""",
        (opening(FIRE, schema),),
    ).fetchall()


@pytest.mark.slow
async def test_a_firer_that_was_stopped_past_its_lease_fires_nothing_twice(
    worker: Spawn, db: psycopg.Connection[Any], proxy: Proxy, schema: str, every_second: str
) -> None:
    """Its statement reaches the server when others have fired the occurrence and its job has ended."""
    late = worker(dsn=proxy.dsn)
    await eventually(lambda: ended(db, every_second))
    held = proxy.hold_request(opening(FIRE, schema))
    await eventually(held.sprung.is_set)
    late.send(signal.SIGSTOP)
    before = ended(db, every_second)
    other = worker()
    await eventually(lambda: ended(db, every_second) >= before + 3)
    lapsed = "select 1 from worker where id = any (%s) and expires_at < now()"
    await eventually(lambda: db.execute(lapsed, (worker_ids(db, late.pid),)).fetchone())
    jobs = len(made(db, every_second))

    proxy.release(held)
    await eventually(held.answered.is_set)
    assert_every_one_once(db, every_second)
    late.send(signal.SIGCONT)
    await eventually(lambda: len(worker_ids(db, late.pid)) > 1)
    other.kill()
    await eventually(lambda: ended(db, every_second) >= jobs + 3)
    assert assert_every_one_once(db, every_second) >= jobs + 3
