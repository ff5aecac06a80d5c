"""A worker whose wall clock is hours off, by libfaketime: schedules are the database's clock's (G10)."""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from headway import Headway
from headway.core.firing import written
from tests.fixtures.processes import WorkerProcess
from tests.schedules.fleet_app import register
from tests.schedules.fleet_seen import assert_every_one_once, ended
from tests.support import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        (sys.platform, platform.machine()) != ("linux", "x86_64"),
        reason="libfaketime comes built for Linux on x86_64",
    ),
]

HOURS = timedelta(hours=7)
SECOND = timedelta(seconds=1)
Worker = Callable[[timedelta], WorkerProcess]


@pytest.fixture
def worker(spawn_worker: Callable[..., WorkerProcess]) -> Worker:
    """Starts a worker process whose wall clock, and no other, is off by so much."""
    package = importlib.util.find_spec("libfaketime")
    assert package is not None
    assert package.origin is not None
    library = Path(package.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"

    def start(off: timedelta) -> WorkerProcess:
        options = ("--lease", "2s", "--poll", "200ms")
        return spawn_worker(
            "tests.schedules.fleet_app:hw",
            *options,
            LD_PRELOAD=str(library),
            FAKETIME=f"{off.total_seconds():+.0f}s",
            FAKETIME_DONT_FAKE_MONOTONIC="1",
        )

    return start


@pytest.mark.parametrize("off", [HOURS, -HOURS], ids=["ahead", "behind"])
async def test_g10_a_wrong_wall_clock_changes_nothing_of_what_is_fired(
    hw: Headway, db: psycopg.Connection[Any], worker: Worker, off: timedelta
) -> None:
    register(hw)
    put = hw.schedules.put_sync
    with db.transaction():  # they begin at its moment
        now = _now(db)
        soon, later = now + SECOND, now + timedelta(hours=5)
        put("seconds", "report", "* * * * * *", catch_up="all", conn=db)
        put("spread", "report", "@every 1s", catch_up="all", jitter="1500ms", conn=db)
        put("soon", "report", written(soon), conn=db)
        put("hours later", "report", written(later), conn=db)
    wrong = worker(off)
    enough = {"seconds": 4, "spread": 3, "soon": 1}
    await eventually(lambda: all(ended(db, name) >= enough[name] for name in enough))
    wrong.kill()

    made = _made(db)
    for each in made:
        assert each.pid == wrong.pid
        its = datetime.fromtimestamp(each.its_time, UTC)
        assert abs(its - each.started_at - off) < timedelta(hours=1), "its clock was to be wrong"
        assert now < each.occurrence <= each.created_at <= _now(db)
        spread = timedelta(seconds=1.5 if each.name == "spread" else 0)
        assert each.occurrence <= each.run_at <= max(each.created_at, each.occurrence + spread)
        # A claim that began a moment before the job was there may have found it.
        assert abs(each.started_at - each.run_at) < timedelta(hours=1)
    assert_every_one_once(db, "spread")
    seconds = [each for each in made if each.name == "seconds"]
    first = _since(db, "seconds").replace(microsecond=0) + SECOND
    assert [each.occurrence for each in seconds] == [
        first + n * SECOND for n in range(len(seconds))
    ]
    for at in ("created_at", "run_at", "started_at"):
        assert sorted(seconds, key=attrgetter(at)) == seconds, "in the order of their moments"
    assert [each.occurrence for each in made if each.name == "soon"] == [soon]
    assert await hw.schedules.next("soon") == []
    assert await hw.schedules.next("hours later") == [later]


class Made(NamedTuple):
    """A job of a schedule that has ended, with what its process said."""

    name: str
    occurrence: datetime
    created_at: datetime
    run_at: datetime
    started_at: datetime
    pid: int
    its_time: float


def _made(db: psycopg.Connection[Any]) -> list[Made]:
    rows = db.execute(
        """select headers->>'schedule', (headers->>'occurrence')::timestamptz, created_at, run_at,
                  started_at, (result->>0)::int, (result->>1)::float
           from archive order by 2"""
    )
    return [Made(*row) for row in rows]


async def test_g10_workers_whose_clocks_are_hours_apart_take_over_from_each_other(
    hw: Headway, db: psycopg.Connection[Any], worker: Worker
) -> None:
    """If one wrote down what time it thinks it is, the next would wait for hours, or repeat them."""
    register(hw)
    await hw.schedules.put("every second", "report", "@every 1s", catch_up="all")
    pids: list[int] = []
    for off in (HOURS, -HOURS, timedelta(hours=30)):
        one = worker(off)
        there = ended(db, "every second")
        await eventually(lambda there=there: ended(db, "every second") >= there + 2)
        pids.append(one.pid)
        one.kill()
    fired = assert_every_one_once(db, "every second")
    assert fired >= 6
    ran = "select distinct (result->>0)::int from archive"
    assert {pid for (pid,) in db.execute(ran)} == set(pids)


def _since(db: psycopg.Connection[Any], name: str) -> datetime:
    """When a schedule began: at its own statement, which may be in a later second than `now()`."""
    row = db.execute("select since from schedule where name = %s", (name,)).fetchone()
    assert row is not None
    return row[0]


def _now(db: psycopg.Connection[Any]) -> datetime:
    row = db.execute("select now()").fetchone()
    assert row is not None
    return row[0]
