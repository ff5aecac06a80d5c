"""partitions.sql: the archive's days are made ahead and dropped past retention; nothing else is."""

from __future__ import annotations

from datetime import datetime, timedelta

import psycopg
import pytest

from headway.core.config import Retention
from headway.store import fleet
from tests.store.store import NOW, Store, engine_connection

_PARENTS = ("archive_succeeded", "archive_failed", "attempt")
_DAY = 86_400


def _sweep(store: Store, **keep: str) -> tuple[int, int]:
    return store.run(fleet.partitions(Retention(**keep), store.now))


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
    (today,) = store.rows("select to_char(now() at time zone 'UTC', '_YYYYMMDD') as day")
    for parent in _PARENTS:
        query = "select count(*) as n from pg_inherits where inhparent = %s::regclass"
        assert store.one(query, f"{store.schema}.{parent}")["n"] == 5, "four days and the net"
        assert store.rows("select to_regclass(%s) as found", f"{parent}{today['day']}")[0]["found"]


def test_days_are_made_ahead_once(store: Store) -> None:
    assert _sweep(store)[0] == 12
    for parent in _PARENTS:
        assert _days(store, parent) == ["20400101", "20400102", "20400103", "20400104"]
    assert _sweep(store)[0] == 0
    store.advance(_DAY)
    assert _sweep(store)[0] == 3


def test_a_day_is_a_day_of_utc_whatever_the_session_says(store: Store) -> None:
    store.conn.execute("set timezone = 'Pacific/Auckland'; set datestyle = 'SQL, DMY'")
    store.now = datetime.fromisoformat("2040-03-01T23:59:59.999999+00:00")
    _sweep(store)
    _end_one_each(store)
    store.now += timedelta(microseconds=1)
    _end_one_each(store)
    assert _where(store, "archive") == {
        "archive_succeeded_20400301",
        "archive_succeeded_20400302",
        "archive_failed_20400301",
        "archive_failed_20400302",
    }


def test_succeeded_and_failed_jobs_lie_apart(store: Store) -> None:
    _sweep(store)
    worker = store.register()
    for kind in ("succeed", "fail", "cancel"):
        store.settle(store.held(worker), kind)
    assert _where(store, "archive") == {"archive_succeeded_20400101", "archive_failed_20400101"}
    assert _where(store, "attempt") == {"attempt_20400101"}


def test_a_day_is_dropped_when_all_of_it_is_past_retention(store: Store) -> None:
    _sweep(store)
    _end_one_each(store)
    # Kept for 7 days after its last moment, midnight of the next day.
    store.advance(12 * 3600 + 7 * _DAY - 1)
    assert _sweep(store, succeeded="7d", failed="30d")[1] == 0
    store.advance(1)
    assert _sweep(store, succeeded="7d", failed="30d")[1] == 1
    assert _days(store, "archive_succeeded")[0] == "20400102"
    assert _days(store, "archive_failed")[0] == "20400101"
    assert [row["state"] for row in store.rows("select state from jobs")] == ["failed"]
    store.advance(23 * _DAY)
    # The three other days of succeeded jobs went in between; now the first of failed ones does.
    _sweep(store, succeeded="7d", failed="30d")
    assert _days(store, "archive_failed")[0] == "20400102"
    assert _days(store, "attempt")[0] == "20400102"
    assert store.count("archive") == 0
    assert store.count("attempt") == 0


def test_g7_pending_work_is_never_deleted_by_retention(store: Store) -> None:
    worker = store.register()
    ready, later = store.enqueue(), store.enqueue(delay=5.0)
    running = store.held(worker, queue="other")
    store.advance(5 * 365 * _DAY)
    _sweep(store, succeeded="1d", failed="1d")
    assert store.states(ready) == ["ready"]
    assert store.states(later) == ["scheduled"]
    assert store.states(running.id) == ["running"]


def test_a_day_that_nobody_made_a_partition_for_loses_nothing(store: Store) -> None:
    _end_one_each(store)
    assert _where(store, "archive") == {"archive_succeeded_other", "archive_failed_other"}
    assert _where(store, "attempt") == {"attempt_other"}
    assert store.count("archive") == 2


def test_a_net_that_holds_rows_of_a_day_goes_on_catching_them(store: Store) -> None:
    _end_one_each(store)
    made, _ = _sweep(store)
    assert made == 9, "three days for each parent, and today is left to the net"
    _end_one_each(store)
    assert _where(store, "archive") == {"archive_succeeded_other", "archive_failed_other"}
    store.advance(_DAY)
    _end_one_each(store)
    assert "archive_succeeded_20400102" in _where(store, "archive")
    assert store.count("archive") == 6


def test_what_fell_into_the_net_is_deleted_past_retention(store: Store) -> None:
    _end_one_each(store)
    store.advance(7 * _DAY)
    _sweep(store, succeeded="7d", failed="30d")
    assert [row["state"] for row in store.rows("select state from jobs")] == ["failed"]
    store.advance(23 * _DAY)
    _sweep(store, succeeded="7d", failed="30d")
    assert store.count("archive") == 0
    assert store.count("attempt") == 0


def test_two_who_look_after_partitions_do_not_wait_for_each_other(store: Store) -> None:
    with engine_connection(store.dsn) as conn, conn.transaction():
        first = store.run(fleet.partitions(Retention(), store.now), conn)
        assert _sweep(store) == (0, 0), "someone is at it"
    assert first[0] == 12


def test_indexes_and_columns_of_a_day_are_those_of_its_parent(store: Store) -> None:
    _sweep(store)
    for parent in _PARENTS:
        queries = (
            "select attname as line from pg_attribute where attrelid = %s::regclass and attnum > 0 "
            "order by attnum",
            "select regexp_replace(indexdef, '.* USING ', '') as line from pg_indexes "
            "where schemaname || '.' || tablename = %s",
        )
        for query in queries:
            mine = store.rows(query, f"{store.schema}.{parent}")
            assert mine
            assert store.rows(query, f"{store.schema}.{parent}_20400101") == mine


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
        assert _sweep(store, succeeded="7d", failed="7d") == (0, 0)
    made, dropped = _sweep(store, succeeded="7d", failed="7d")
    assert made == 12
    assert dropped > 30
    assert {len(_days(store, parent)) for parent in _PARENTS} == {4}


def test_a_row_in_use_does_not_stop_the_rest_of_the_sweep(store: Store) -> None:
    _sweep(store)
    store.advance(30 * _DAY)
    _end_one_each(store)
    store.advance(30 * _DAY)
    with psycopg.connect(store.dsn) as other:
        other.execute(f"select 1 from {store.schema}.archive_failed_other for update")
        # Whoever locks a row of the net is in the way of its parent's days, and of those only.
        assert _sweep(store, succeeded="7d", failed="7d") == (8, 8)
    assert _sweep(store, succeeded="7d", failed="7d") == (4, 4)
    assert store.count("archive") == 0


def test_moments_of_these_tests_are_not_yet(store: Store) -> None:
    """The names of days above tell them from those that the migration made for today."""
    assert store.one("select now() < %s as yet", NOW)["yet"]
