"""partitions.sql: jobs that are kept for long, a full default partition, and work in bounded portions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from headway.store.faults import is_passing
from headway.store.statements import fleet, jobs
from tests.store.aside import Aside
from tests.store.store import Store, engine_connection

_DAY = 86_400
_MANY = 30_000
_MOST_MADE = 32
_MOST_DROPPED = 16


@pytest.fixture
def store(own_store: Store) -> Store:
    return own_store


def _sweep(store: Store) -> tuple[int, int, int]:
    """Return how many partitions were made and dropped, and how many rows were moved or deleted."""
    return store.run(fleet.partitions(store.now))


def _sweep_all(store: Store) -> None:
    """Sweep until there is nothing left to do, as a worker does."""
    while any(_sweep(store)):
        pass


def _end(store: Store, task: str, kind: Any = "succeed") -> str:
    """Run a job to its end. Return the partition of the archive that has it."""
    claim = store.held(store.register(), task=task)
    assert store.settle(claim, kind)
    query = "select tableoid::regclass::text as place from archive where id = %s"
    return store.one(query, claim.id)["place"]


def _partitions(store: Store, parent: str) -> list[str]:
    """The partitions of a parent that have a time, without those that the migration made for today."""
    rows = store.rows(
        "select substring(c.relname from '_([0-9]+)$') as time from pg_inherits i "
        "join pg_class c on c.oid = i.inhrelid where i.inhparent = %s::regclass order by 1",
        f"{store.schema}.{parent}",
    )
    return [row["time"] for row in rows if row["time"] and row["time"] >= "2040"]


def _fill_net(store: Store, count: int) -> None:
    """Jobs that ended on a day that nobody made partitions for. Days of the migration are dropped."""
    while store.one("select drop_partitions(%s) as dropped", store.now)["dropped"]:
        pass
    store.eyes.execute(
        """insert into archive (id, run_at, created_at, finished_at, kept_until, claim, attempt,
             max_attempts, priority, state, ordered, until_claimed, queue, task, step, input)
           select gen_random_uuid(), t, t, t, t + interval '7 days', 1, 1,
             1, 0, 'd', false, false, 'q', 't', '', '{}'
           from (select %s::timestamptz) n(t), generate_series(1, %s)""",
        (store.now, count),
    )


@contextmanager
def _sweeping(store: Store) -> Iterator[tuple[psycopg.Connection[Any], tuple[int, int, int]]]:
    """A sweep whose transaction stays open, with what it did."""
    with engine_connection(store.dsn) as conn, conn.transaction():
        yield conn, store.run(fleet.partitions(store.now), conn)


def _exclusive(store: Store, conn: psycopg.Connection[Any]) -> set[str]:
    """The tables that a session has locked exclusively; not those that it has just made."""
    rows = store.rows(
        "select c.relname from pg_locks l join pg_class c on c.oid = l.relation "
        "where l.pid = %s and l.mode = 'AccessExclusiveLock' and c.relkind in ('r', 'p')",
        conn.info.backend_pid,
    )
    return {row["relname"] for row in rows}


def _read(store: Store, conn: psycopg.Connection[Any]) -> int:
    """How many rows of the net a session has read in its transaction."""
    query = "select seq_tup_read from pg_stat_xact_user_tables "
    query += "where schemaname = %s and relname = 'archive_other'"
    return conn.execute(query, (store.schema,)).fetchall()[0][0]


# -- how long, and where ---------------------------------------------------------------------------


def test_r11_jobs_kept_for_long_lie_by_month_and_by_year(store: Store) -> None:
    places = {
        "90 days": "archive_20400331",
        "100 days": "archive_204004",
        "730 days": "archive_204112",
        "3650 days": "archive_2049",
        "36500 days": "archive_rest",
    }
    for keep in places:
        store.declare(keep, keep_succeeded=keep)
    _sweep_all(store)
    assert {keep: _end(store, keep) for keep in places} == places


@pytest.mark.parametrize("days", [93, 1100, 36_000])
def test_r11_a_keeping_at_a_limit_has_its_partition(store: Store, days: int) -> None:
    """The functions and the partition key have the same limits."""
    keepings = [f"{days} days {extra} seconds" for extra in (-1, 0, 1)]
    for keep in keepings:
        store.declare(keep, keep_succeeded=keep)
    _sweep_all(store)
    assert "archive_other" not in [_end(store, keep) for keep in keepings]


@pytest.mark.slow
@pytest.mark.parametrize(("days", "step"), [(93, 4), (730, 28), (9000, 350)])
def test_r11_a_long_keeping_has_few_partitions(store: Store, days: int, step: int) -> None:
    """Of each parent, when it has lasted for as long as a job is kept."""
    store.declare(keep_succeeded=f"{days} days")
    for _ in range(days // step + 1):
        _sweep_all(store)
        store.advance(step * _DAY)
    _sweep_all(store)
    kept = [time for time in _partitions(store, "archive") if days <= 93 or len(time) < 8]
    assert days // 365 <= len(kept) <= 104
    assert days // 365 <= len(_partitions(store, "attempt")) <= 104


def test_r11_a_month_is_dropped_when_it_has_passed(store: Store) -> None:
    store.declare("long", keep_succeeded="100 days")
    _sweep_all(store)
    assert _end(store, "long") == "archive_204004"
    store.now = store.now.replace(month=4, day=30, hour=23, minute=59)
    _sweep_all(store)
    assert store.count("archive") == 1
    store.advance(60)
    _sweep_all(store)
    assert store.count("archive") == 0
    assert "204004" not in _partitions(store, "archive")


def test_r11_a_short_keeping_has_days_where_a_long_one_has_a_month(store: Store) -> None:
    store.declare("long", keep_succeeded="100 days")
    store.declare("short", keep_succeeded="7 days")
    _sweep_all(store)
    store.advance(95 * _DAY)
    _sweep_all(store)
    assert "204004" in _partitions(store, "archive")
    assert _end(store, "short") == "archive_20400412"


def test_r11_a_task_may_change_how_long_it_keeps(store: Store) -> None:
    """Jobs that have ended stay for as long as was said when they ended."""
    store.declare("t", keep_succeeded="730 days")
    _sweep_all(store)
    assert _end(store, "t") == "archive_204112"
    store.eyes.execute("update task set keep_succeeded = '2 days'")
    _sweep_all(store)
    assert _end(store, "t") == "archive_20400103"
    store.eyes.execute("update task set keep_succeeded = '36500 days'")
    assert _end(store, "t") == "archive_rest"
    store.advance(3 * _DAY)
    _sweep_all(store)
    assert store.count("archive") == 2
    store.advance(800 * _DAY)
    _sweep_all(store)
    assert store.count("archive") == 1


def test_r11_attempts_change_from_days_to_months_to_years_and_back(store: Store) -> None:
    """A month that has days gets the rest of its days: partitions never overlap."""
    _sweep_all(store)
    assert _partitions(store, "attempt") == ["20400101", "20400102", "20400103", "20400104"]
    store.declare("t", keep_failed="730 days")
    store.now = store.now.replace(day=30)
    _sweep_all(store)
    assert _partitions(store, "attempt")[4:] == ["20400130", "20400131", "204002"]
    store.eyes.execute("update task set keep_failed = '3000 days'")
    store.now = store.now.replace(month=12)
    _sweep_all(store)
    assert _partitions(store, "attempt")[6:] == ["204002", "204012", "2041"]
    store.eyes.execute("update task set keep_failed = '30 days'")
    store.now = store.now.replace(year=2041, day=30)
    _sweep_all(store)
    assert _partitions(store, "attempt") == ["2041", "20420101", "20420102"]


# -- a default partition that is full --------------------------------------------------------------


def test_r11_a_full_net_is_emptied_without_a_lock_that_a_settling_waits_for(store: Store) -> None:
    _fill_net(store, _MANY)
    claim = store.held(store.register())
    with _sweeping(store) as (conn, done):
        assert not _exclusive(store, conn) & {"archive", "archive_other"}
        assert 0 < done[2] < _MANY
        store.conn.execute("set lock_timeout = '10s'")
        assert store.settle(claim, "succeed"), "into the net, in the middle of the sweep"
    _sweep_all(store)
    assert store.count("archive") == _MANY + 1
    assert store.count("archive_rest") == _MANY + 1
    assert "20400108" in _partitions(store, "archive")


def test_r11_a_partition_is_attached_without_a_scan_of_the_net(store: Store) -> None:
    """Also not of rows that were moved out of it and are still on its pages."""
    _fill_net(store, _MANY)
    attached = False
    while not attached:
        with _sweeping(store) as (conn, done):
            attached = "archive_other" in _exclusive(store, conn)
            read = _read(store, conn)
            query = "select pg_relation_size(%s)"
            size = conn.execute(query, (f"{store.schema}.archive_other",)).fetchall()
    assert "20400108" in _partitions(store, "archive")
    assert size == [(0,)]
    assert read == done[2], "only to be moved"


def test_r11_a_call_of_prune_empties_a_full_net(store: Store) -> None:
    """Where no worker lives it is called once a day."""
    store.now = store.one("select now() as now")["now"]
    names = store.rows(
        "select c.oid::regclass::text as name from pg_inherits i join pg_class c on c.oid = i.inhrelid "
        "where i.inhparent = 'archive'::regclass and c.relname ~ '_[0-9]{8}$'"
    )
    for row in names:
        store.eyes.execute(f"drop table {row['name']}")
    _fill_net(store, 12_000)
    store.rows("select prune()")
    assert store.count("archive_other") == 0
    assert store.count("archive_rest") == 12_000
    names = store.rows(
        "select to_regclass('archive_' || to_char(now() at time zone 'UTC' + "
        "interval '7 days', 'YYYYMMDD')) as name"
    )
    assert names[0]["name"] is not None


def test_r11_settlings_go_on_while_a_partition_is_attached(store: Store) -> None:
    _sweep_all(store)
    claim = store.held(store.register())
    store.advance(_DAY)
    with _sweeping(store) as (_, done):
        assert done[0] > 0
        store.conn.execute("set lock_timeout = '10s'")
        assert store.settle(claim, "succeed")


def test_r11_more_rows_than_a_short_lock_allows_put_off_the_attaching(store: Store) -> None:
    """They come between the emptying and the lock."""
    _fill_net(store, 2001)
    query = "select add_partitions(%s, 0) as made"
    assert store.one(query, store.now)["made"] == 1, "of attempts"
    assert store.count("archive_other") == 2001
    store.eyes.execute(
        "delete from archive_other where ctid = (select min(ctid) from archive_other)"
    )
    assert store.one(query, store.now)["made"] == 2
    assert store.count("archive_other") == 0
    assert store.count("archive_rest") == 2000


def test_r11_a_job_that_was_moved_out_of_the_net_comes_back_on_request(store: Store) -> None:
    claim = store.held(store.register())
    store.settle(claim, "fail")
    before = store.archived(claim.id)
    _sweep_all(store)
    assert store.archived(claim.id) == {**(before or {}), "spilled": True}
    assert store.count("archive_rest") == 1
    store.run(jobs.revive(store.target, claim.id, None, store.now))
    assert store.states(claim.id) == ["ready"]


def test_r11_a_request_that_meets_the_move_is_repeated_and_finds_the_job(store: Store) -> None:
    claim = store.held(store.register())
    store.settle(claim, "fail")
    revive = jobs.revive(store.target, claim.id, None, store.now)
    with engine_connection(store.dsn) as conn, conn.transaction():
        conn.execute(f"select {store.schema}.spill('archive', 10)")  # type: ignore[arg-type]
        meanwhile = Aside(store, revive).wait_until_it_waits()
    refusal = meanwhile.answer()
    assert isinstance(refusal, psycopg.errors.SerializationFailure)
    assert is_passing(refusal)
    store.run(revive)
    assert store.states(claim.id) == ["ready"]


def test_r11_rows_that_are_over_are_found_by_an_index(store: Store) -> None:
    """A default partition was scanned every ten minutes."""
    _fill_net(store, 2000)
    _sweep_all(store)
    store.eyes.execute("vacuum analyze archive_rest")
    with _sweeping(store) as (conn, _):
        query = "select sum(seq_scan) from pg_stat_xact_user_tables "
        query += "where schemaname = %s and relname ~ '_(rest|other)$'"
        scans = conn.execute(query, (store.schema,)).fetchall()
    assert scans == [(0,)]


def test_r11_rows_that_are_over_are_deleted_in_portions(store: Store) -> None:
    _fill_net(store, 6000)
    _sweep_all(store)
    store.advance(8 * _DAY)
    assert _sweep(store)[2] == 5000
    assert _sweep(store)[2] == 1000
    assert store.count("archive") == 0


# -- portions of partitions ------------------------------------------------------------------------


def test_s28_partitions_are_made_in_portions(store: Store) -> None:
    query = "select add_partitions(%s, 400) as made"
    made = [store.one(query, store.now)["made"] for _ in range(5)]
    assert made[0] == _MOST_MADE
    assert max(made) == _MOST_MADE
    assert made[-1] == 0
    assert len(_partitions(store, "attempt")) == 32, "at most a month ahead"


@pytest.mark.slow
def test_s28_hundreds_of_partitions_are_dropped_in_portions(store: Store) -> None:
    for _ in range(5):
        while store.one("select add_partitions(%s, 31) as made", store.now)["made"]:
            pass
        store.advance(32 * _DAY)
    store.advance(365 * _DAY)
    there = [len(_partitions(store, parent)) for parent in ("archive", "attempt")]
    assert sum(there) > 300
    portions = list[int]()
    while dropped := store.one("select drop_partitions(%s) as dropped", store.now)["dropped"]:
        portions.append(dropped)
    assert max(portions) <= 2 * _MOST_DROPPED
    assert _partitions(store, "archive") == _partitions(store, "attempt") == []
