"""Values that both Python and the schema know: they must be the same."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from headway.core import config, retry
from headway.core.state import FINISHED, LIVE, State
from headway.errors import ConfigError
from tests.architecture.source import sql_files
from tests.store.store import Store


@pytest.fixture
def store(dsn: str, schema: str) -> Iterator[Store]:
    store = Store(dsn, schema)
    yield store
    store.close()


def test_the_letters_of_states_are_those_of_the_tables(store: Store) -> None:
    query = (
        "select pg_get_constraintdef(oid) as words from pg_constraint where conname = 'job_state'"
    )
    allowed = re.findall(r"'(\w)'::\"char\"", store.rows(query)[0]["words"])
    assert {State(letter) for letter in allowed} == LIVE


def test_the_words_for_states_are_those_that_people_see(store: Store) -> None:
    query = 'select label(%s::"char") as word'
    assert {state: store.one(query, state.value)["word"] for state in State} == {
        state: state.label for state in LIVE | FINISHED
    }


def test_limits_fit_their_columns(store: Store) -> None:
    smallest, largest = -(2**15), 2**15 - 1
    for column in ("priority", "max_attempts", "attempt", "crashes"):
        query = "select data_type from information_schema.columns where table_schema = %s and "
        query += "table_name = 'job' and column_name = %s"
        assert store.one(query, store.schema, column)["data_type"] == "smallint"
    for value in (smallest, largest):
        assert config.check_priority(value) == value
        store.enqueue(priority=value)
    for value in (smallest - 1, largest + 1):
        with pytest.raises(ConfigError, match="priority"):
            config.check_priority(value)
    assert largest >= retry._MOST_ATTEMPTS  # pyright: ignore[reportPrivateUsage]
    assert largest >= retry._MOST_CRASHES  # pyright: ignore[reportPrivateUsage]


def test_defaults_of_the_schema_are_those_of_the_package(store: Store) -> None:
    store.rows(
        "insert into job (id, run_at, created_at, max_attempts, state, queue, task, input) "
        "values (gen_random_uuid(), now(), now(), 1, 'r', 'q', 't', '{}') returning 1"
    )
    row = store.one("select priority, step, attempt, claim, crashes from job")
    assert row == {"priority": 0, "step": "", "attempt": 0, "claim": 0, "crashes": 0}


def test_a_call_in_sql_is_tried_as_often_and_as_far_apart_as_in_python(store: Store) -> None:
    default = retry.Retry()
    made = store.one("select enqueue('unknown', '{}') as id")["id"]
    row = store.one("select max_attempts from job where id = %s", made)
    assert row["max_attempts"] == default.max_attempts
    for attempt in (1, 4, 13, 19):
        store.rows("update job set attempt = %s returning 1", attempt - 1)
        failed = store.one("select fail(id, claim, 'no') as done from claim('default', 1)")
        assert failed["done"]
        query = "select extract(epoch from run_at - now())::float as rest from job"
        rest = store.one(query)["rest"]
        assert default.delay(attempt, 0) - 60 <= rest <= default.delay(attempt, 1)
        query = "update job set state = 'r', run_at = now(), seq = nextval('job_seq') returning 1"
        store.rows(query)


def test_as_many_days_are_made_by_the_migration_as_by_the_sweep() -> None:
    first = sql_files("functions")["functions/1_partitions"]
    (made,) = re.findall(r"select {schema}\.add_partitions\(now\(\), (\d+)\)", first)
    sweep = sql_files("writes")["writes/partitions"]
    (swept,) = re.findall(r"add_partitions\(coalesce\(.*?\), (\d+)\)", sweep)
    assert made == swept


def test_channels_fit_a_name_of_postgresql() -> None:
    longest = config.check_schema("x" * 48)
    assert len(f"{longest}_work") <= 63
    with pytest.raises(ConfigError, match="schema"):
        config.check_schema("x" * 49)
