"""Metrics of a table that is too long to be counted: exact as far as indexes are read, then estimated.

How much is read is asked of the server's own counters, which know nothing of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from headway import Headway
from headway.core.clock import Clock
from headway.engine.maintenance.job_counts import JobCounter
from headway.store import migrate
from headway.store.connections.connect import Target
from headway.store.connections.engine_connection import EngineConnection
from tests.sql.hand import Hand
from tests.support import Running, eventually

_MOST = 500
_WAITING = 6_000
_RUNNING = 20

_FILL = """
insert into job (id, run_at, created_at, max_attempts, state, queue, task, input, priority, worker_id,
                 key, key_limit)
select new_id(), now() + make_interval(secs => case %(state)s when 's' then n else n - %(count)s end),
       now(), 5, %(state)s::"char", %(queue)s, 'greet', '{}', n %% 3,
       case %(state)s when 'x' then 1 end, case %(state)s when 'b' then 'k' end, 1
from generate_series(1, %(count)s) n"""

_LIVE = "select * from live_jobs(%s, null, most_pages => 0, most_rows => %s)"
_COUNTED = (
    "select queue, ready, scheduled, blocked, running, waiting, oldest_ready_at, newest_ready_at"
)


def _fill(hand: Hand, queue: str, **counts: int) -> None:
    letters = {"ready": "r", "scheduled": "s", "blocked": "b", "running": "x", "waiting": "w"}
    for state, count in counts.items():
        given = {"state": letters[state], "queue": queue, "count": count}
        hand.conn.execute(_FILL, given)


@pytest.fixture(scope="module")
def full(dsn: str) -> Iterator[Hand]:
    """A schema of this file's own with many jobs in it, of which there are no statistics."""
    migrate.run_sync(dsn, "hw_many")
    hand = Hand(dsn, "hw_many")
    _fill(hand, "many", ready=_WAITING, scheduled=_WAITING, blocked=_WAITING, running=_RUNNING)
    yield hand
    hand.rows("drop schema hw_many cascade")
    hand.close()


def _read(hand: Hand, query: str, *params: Any) -> dict[str, int]:
    """How often tables of jobs were walked, and how many of their rows were read, by a query."""
    with psycopg.connect(hand.dsn, row_factory=dict_row) as conn:
        conn.execute(sql.SQL("set search_path = {}").format(sql.Identifier(hand.schema)))
        conn.execute(query, params)  # type: ignore[arg-type]
        read = conn.execute(
            "select coalesce(seq_scan, 0)::integer as walks, coalesce(idx_tup_fetch, 0)::integer as rows "
            "from pg_stat_xact_user_tables where schemaname = %s and relname = 'job'",
            [hand.schema],
        ).fetchone()
    assert read is not None
    return read


@pytest.mark.parametrize("queue", [None, "many"])
def test_a_long_table_is_never_walked(full: Hand, queue: str | None) -> None:
    read = _read(full, _LIVE, queue, _MOST)
    assert read["walks"] == 0
    # Three indexes as far as allowed, the running jobs, and a few of each lane for its ends.
    assert _MOST < read["rows"] < 3 * (_MOST + 1) + _RUNNING + 50


def test_what_is_more_than_is_looked_at_is_said_to_be_at_least_that(full: Hand) -> None:
    row = full.row(_LIVE, "many", _MOST)
    assert row["estimated"]
    assert (row["ready"], row["scheduled"], row["blocked"]) == (_MOST + 1,) * 3
    assert row["running"] == _RUNNING


def test_within_the_bounds_an_estimate_is_exact(hand: Hand) -> None:
    _fill(hand, "one", ready=7, scheduled=5, blocked=3, running=2)
    _fill(hand, "two", ready=1)
    _fill(hand, "three", scheduled=4)
    _fill(hand, "four", running=1)
    estimate = hand.rows(f"{_COUNTED} from live_jobs(null, null, 0, 100) order by queue")
    assert estimate == hand.rows(f"{_COUNTED} from count_live(null) order by queue")
    assert {row["estimated"] for row in hand.rows("select * from live_jobs(null, null, 0)")} == {
        False
    }
    (one,) = hand.rows(f"{_COUNTED} from live_jobs('one', null, 0, 100)")
    assert one == hand.row(f"{_COUNTED} from count_live('one')")


def test_queues_share_what_is_looked_at_of_ready_jobs(hand: Hand) -> None:
    for number in range(10):
        _fill(hand, f"q{number}", ready=20)
    assert {r["ready"] for r in hand.rows(_LIVE, None, 100)} == {
        11
    }  # 10 each, and one that says: more
    assert hand.row(_LIVE, "q1", 100)["ready"] == 20


async def test_a_census_says_how_many_there_are_beyond_what_is_looked_at(
    dsn: str, schema: str, hand: Hand
) -> None:
    _fill(hand, "one", ready=150, scheduled=120, blocked=110, waiting=4)
    _fill(hand, "two", ready=130)
    link = EngineConnection(Target(dsn, schema))
    census = JobCounter(link, Clock(), long=0, part=1)
    try:
        census.lead(True)
        await _count_all(census, hand)
    finally:
        await link.close()
    one, two = hand.rows("select * from live_jobs(null, null, 0, 20) order by queue")
    assert (one["ready"], one["scheduled"], one["blocked"], one["waiting"]) == (150, 120, 110, 4)
    assert (two["ready"], two["scheduled"]) == (130, 0)
    assert one["estimated"]
    assert one["as_of"] == hand.value("select max(taken_at) from census")


async def test_a_census_is_forgotten_once_the_table_is_short(
    dsn: str, schema: str, hand: Hand
) -> None:
    _fill(hand, "one", ready=3)
    hand.rows("insert into census values ('gone', 'r', 1000000, now())")
    link = EngineConnection(Target(dsn, schema))
    try:
        census = JobCounter(link, Clock(), long=1000)
        assert await census.turn() is None  # it is not the leader
        assert hand.value("select count(*) from census") == 1
        census.lead(True)
        await census.turn()
    finally:
        await link.close()
    assert hand.value("select count(*) from census") == 0


async def test_the_leader_takes_the_census(
    hw: Headway, start: Callable[..., Running], hand: Hand
) -> None:
    @hw.task
    async def idle() -> None: ...

    hand.rows("insert into census values ('gone', 'r', 1000000, now())")
    start()
    await eventually(lambda: hand.value("select count(*) from census") == 0)


def test_what_the_census_remembers_of_an_empty_queue_is_not_shown(hand: Hand) -> None:
    hand.rows("insert into census values ('gone', 'r', 1000000, now())")
    _fill(hand, "one", ready=3)
    assert [r["queue"] for r in hand.rows(_LIVE, None, 100)] == ["one"]


async def _count_all(census: JobCounter, hand: Hand) -> None:
    """Turns until a census was kept; the table has several pages, and a part is one."""
    for turn in range(1000):
        await census.turn()
        if hand.value("select count(*) from census"):
            assert turn > 1
            return
    raise AssertionError("there is no end to the table")
