"""partitions.sql: the archive's days are made ahead and dropped past retention; nothing else is."""

from __future__ import annotations

from datetime import datetime, timedelta

import psycopg
import pytest

from headway.store.statements import fleet
from tests.store.store import NOW, Store, engine_connection

_PARENTS = ("archive", "attempt")
_DAY = 86_400
_PLACE = "select tableoid::regclass::text as place from archive where id = %s"


def _sweep(store: Store) -> tuple[int, int]:
    """Return how many partitions were made and how many were dropped."""
    made, dropped, _ = store.run(fleet.partitions(store.now))
    return made, dropped


def _sweep_all(store: Store) -> tuple[int, int]:
    """Sweep until there is nothing left to do, as a worker does. Return the sums."""
    made = dropped = 0
    while any(done := store.run(fleet.partitions(store.now))):
        made, dropped = made + done[0], dropped + done[1]
    return made, dropped


def _days(store: Store, parent: str) -> list[str]:
    """The days that a parent has partitions for, from the moment of these tests on."""
    rows = store.rows(
        "select right(c.relname, 8) as day from pg_inherits i join pg_class c on c.oid = i.inhrelid "
        "where i.inhparent = %s::regclass and c.relname ~ '_20[4-9][0-9]{5}$' order by 1",
        f"{store.schema}.{parent}",
    )
    return [row["day"] for row in rows]


def _where(store: Store, table: str) -> set[str]:
    """The partitions that a table's rows lie in."""
    rows = store.rows(f"select distinct tableoid::regclass::text as place from {table}")
    return {row["place"] for row in rows}


@pytest.fixture
def store(own_store: Store) -> Store:
    return own_store


def _end_one_each(store: Store) -> None:
    """A succeeded and a failed job, now."""
    worker = store.register()
    for kind in ("succeed", "fail"):
        assert store.settle(store.held(worker), kind)


def test_a_fresh_schema_has_partitions_for_today_and_three_more_days(store: Store) -> None:
    """Of attempts; of the archive, for each of the two usual keepings."""
    query = "select count(*) as n from pg_inherits where inhparent = %s::regclass"
    counts = [store.one(query, f"{store.schema}.{parent}")["n"] for parent in _PARENTS]
    assert counts == [8 + 2, 4 + 2], "the days, the net and what was moved out of it"
    days = "select to_char((now() + %s::interval) at time zone 'UTC', '_YYYYMMDD') as day"
    for name, ahead in (("attempt", "0 days"), ("archive", "7 days"), ("archive", "33 days")):
        day = store.one(days, ahead)["day"]
        assert store.one("select to_regclass(%s) as found", name + day)["found"], name + day


def test_days_are_made_ahead_once(store: Store) -> None:
    assert _sweep(store)[0] == 12
    assert _days(store, "attempt") == ["20400101", "20400102", "20400103", "20400104"]
    week, month = ["08", "09", "10", "11"], ["31", "01", "02", "03"]
    kept = [f"204001{day}" for day in (*week, month[0])] + [f"204002{day}" for day in month[1:]]
    assert _days(store, "archive") == kept
    assert _sweep(store)[0] == 0
    store.advance(_DAY)
    assert _sweep(store)[0] == 3


def test_a_keeping_that_a_task_declares_has_days_of_its_own(store: Store) -> None:
    store.declare("brief", keep_succeeded="1 day", keep_failed=None)
    store.declare("longer", keep_succeeded="8 days", keep_failed="90 days")
    # Of 8 days only the last is new.
    assert _sweep(store)[0] == 12 + 4 + 1 + 4
    assert _days(store, "archive")[:9] == [
        *("20400102", "20400103", "20400104", "20400105"),
        *("20400108", "20400109", "20400110", "20400111", "20400112"),
    ]
    worker = store.register()
    brief, longer = store.held(worker, task="brief"), store.held(worker, task="longer")
    store.settle(brief, "succeed")
    store.settle(longer, "fail")
    assert _where(store, "archive") == {"archive_20400102", "archive_20400331"}


def test_a_day_is_a_day_of_utc_whatever_the_session_says(store: Store) -> None:
    store.conn.execute("set timezone = 'Pacific/Auckland'; set datestyle = 'SQL, DMY'")
    store.now = datetime.fromisoformat("2040-06-01T23:59:59.999999+00:00")
    _sweep(store)
    _end_one_each(store)
    store.now += timedelta(microseconds=1)
    _end_one_each(store)
    assert _where(store, "archive") == {
        "archive_20400608",
        "archive_20400609",
        "archive_20400701",
        "archive_20400702",
    }
    assert _where(store, "attempt") == {"attempt_20400601", "attempt_20400602"}


def test_jobs_lie_by_the_day_until_which_they_are_kept(store: Store) -> None:
    _sweep(store)
    worker = store.register()
    places: dict[str, set[str]] = {}
    for kind in ("succeed", "fail", "cancel"):
        before = _where(store, "archive")
        claim = store.held(worker)
        if kind == "cancel":
            store.cancel(claim.id)
        assert store.settle(claim, kind)
        row = store.archived(claim.id)
        assert row is not None
        places[kind] = {store.one(_PLACE, claim.id)["place"]}
        assert places[kind] >= _where(store, "archive") - before
    assert places == {
        "succeed": {"archive_20400108"},
        "fail": {"archive_20400131"},
        "cancel": {"archive_20400131"},
    }
    assert _where(store, "attempt") == {"attempt_20400101"}


def test_a_day_is_dropped_when_it_has_passed(store: Store) -> None:
    _sweep(store)
    _end_one_each(store)
    # Jobs that ended at noon are kept for 7 days; that day ends half a day later.
    store.advance(12 * 3600 + 7 * _DAY - 1)
    assert _sweep(store)[1] == 0
    store.advance(1)
    assert _sweep(store)[1] == 1
    assert _days(store, "archive")[0] == "20400109"
    assert [row["state"] for row in store.rows("select state from jobs")] == ["failed"]
    store.advance(23 * _DAY - 1)
    _sweep(store)
    assert store.count("archive") == 1
    assert store.count("attempt") == 1
    store.advance(1)
    _sweep(store)
    assert _days(store, "archive")[0] == "20400201"
    assert _days(store, "attempt")[0] == "20400102"
    assert store.count("archive") == 0
    assert store.count("attempt") == 0


def test_attempts_are_kept_for_as_long_as_any_job_is(store: Store) -> None:
    store.declare(keep_failed="90 days")
    _sweep(store)
    _end_one_each(store)
    store.advance(12 * 3600 + 90 * _DAY - 1)
    _sweep(store)
    assert (store.count("archive"), store.count("attempt")) == (1, 1)
    store.advance(1)
    _sweep(store)
    assert (store.count("archive"), store.count("attempt")) == (0, 0)


def test_g7_pending_work_is_never_deleted_by_retention(store: Store) -> None:
    store.declare(keep_succeeded="1 day", keep_failed="1 day")
    worker = store.register()
    ready, later = store.enqueue(), store.enqueue(delay=5.0)
    blocked = store.enqueue(key="k")
    running = store.held(worker, queue="other")
    store.advance(5 * 365 * _DAY)
    _sweep(store)
    assert store.states(ready) == ["ready"]
    assert store.states(later) == ["scheduled"]
    assert store.states(blocked) == ["blocked"]
    assert store.states(running.id) == ["running"]


def test_a_day_that_nobody_made_a_partition_for_loses_nothing(store: Store) -> None:
    _end_one_each(store)
    assert _where(store, "archive") == {"archive_other"}
    assert _where(store, "attempt") == {"attempt_other"}
    assert store.count("archive") == 2


def test_rows_in_the_net_are_moved_so_that_their_day_has_a_partition(store: Store) -> None:
    _end_one_each(store)
    made, _ = _sweep(store)
    assert made == 12
    assert _where(store, "archive") == {"archive_rest"}
    assert _where(store, "attempt") == {"attempt_rest"}
    _end_one_each(store)
    assert _where(store, "archive") == {"archive_rest", "archive_20400108", "archive_20400131"}
    assert _where(store, "attempt") == {"attempt_rest", "attempt_20400101"}
    assert (store.count("archive"), store.count("attempt")) == (4, 2)


def test_what_fell_into_the_net_is_deleted_when_its_time_is_over(store: Store) -> None:
    _end_one_each(store)
    store.advance(7 * _DAY - 1)
    _sweep(store)
    assert store.count("archive") == 2
    store.advance(1)
    _sweep(store)
    assert [row["state"] for row in store.rows("select state from jobs")] == ["failed"]
    store.advance(23 * _DAY)
    _sweep(store)
    assert store.count("archive") == 0
    assert store.count("attempt") == 0


def test_two_sweeps_of_partitions_do_not_wait_for_each_other(store: Store) -> None:
    with engine_connection(store.dsn) as conn, conn.transaction():
        first = store.run(fleet.partitions(store.now), conn)
        assert _sweep(store) == (0, 0), "someone is at it"
    assert first[0] == 12


def test_indexes_and_columns_of_a_day_are_those_of_its_parent(store: Store) -> None:
    _sweep(store)
    for parent, day in (("archive", "20400108"), ("attempt", "20400101")):
        queries = (
            "select attname as line from pg_attribute where attrelid = %s::regclass and attnum > 0 "
            "order by attnum",
            "select regexp_replace(indexdef, '.* USING ', '') as line from pg_indexes "
            "where schemaname || '.' || tablename = %s order by 1",
        )
        for query in queries:
            mine = store.rows(query, f"{store.schema}.{parent}")
            assert mine
            assert store.rows(query, f"{store.schema}.{parent}_{day}") == mine


def test_a_reader_in_the_way_makes_it_try_again_later_rather_than_fail(store: Store) -> None:
    """Someone who reads the whole archive for hours, a backup say, with weeks of days to be dropped.

    The sweep must end by itself, within its statement timeout, and do its work when it can.
    """
    for _ in range(5):
        _sweep(store)
        store.advance(4 * _DAY)
    with psycopg.connect(store.dsn) as reader:
        reader.execute(f"select count(*) from {store.schema}.jobs, {store.schema}.attempt")
        store.advance(60 * _DAY)
        assert _sweep(store) == (0, 0)
    assert _sweep_all(store) == (12, 51), "in addition to the 9 days dropped before the reader came"
    assert [len(_days(store, parent)) for parent in _PARENTS] == [8, 4]


def test_a_row_in_use_does_not_stop_the_rest_of_the_sweep(store: Store) -> None:
    _sweep(store)
    store.advance(30 * _DAY)
    _end_one_each(store)
    store.advance(30 * _DAY)
    with psycopg.connect(store.dsn) as other:
        other.execute(f"select 1 from {store.schema}.archive_other for update")
        # A lock on a row of the net is in the way of its parent's partitions, and of no others.
        assert _sweep(store) == (4, 4)
        assert _where(store, "archive") == {"archive_other"}
    assert _sweep(store) == (8, 8)
    assert store.count("archive") == 0


def test_moments_of_these_tests_are_not_yet(store: Store) -> None:
    """The names of days above tell them from those that the migration made for today."""
    assert store.one("select now() < %s as yet", NOW)["yet"]
