"""Underway's tests of a task, U1 to U5: running it, its retry policy, the migrations under it."""

from __future__ import annotations

from typing import Any

import psycopg

from headway import Headway, Retry
from headway.store import migrate


async def test_u1_a_task_given_good_input_succeeds(hw: Headway) -> None:
    """Underway: execute returns Ok. Headway: the same, by a call or as a job whose result is kept."""

    @hw.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    assert await greet("Ada") == "hello Ada"
    job = await greet.enqueue("Ada")
    await hw.run_until_idle()
    assert await job.result(timeout="60s") == "hello Ada"
    assert (await job.status()).state == "succeeded"


async def test_u2_a_task_that_fails_is_tried_again(hw: Headway) -> None:
    """Underway: an error is Retryable unless Fatal. Headway: every exception is, unless Fatal."""

    @hw.task(retry=Retry(base="1h", cap="1h"))
    async def greet(name: str) -> str:
        raise ConnectionError(f"no way to reach {name}")

    job = await greet.enqueue("fail")
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.attempt) == ("scheduled", 1)
    (attempt,) = await job.attempts()
    assert (attempt.error["type"], attempt.error["message"]) == (
        "ConnectionError",
        "no way to reach fail",
    )


def test_u3_the_default_policy_is_five_attempts_doubling_from_a_second_to_a_minute() -> None:
    """Underway: 5, 1 s, 1 min, factor 2, jitter a half. Headway: the same numbers."""
    default = Retry()
    assert (default.max_attempts, default.jitter) == (5, 0.5)
    assert [Retry(jitter=0).delay(attempt, chance=0) for attempt in range(1, 9)] == [
        1, 2, 4, 8, 16, 32, 60, 60,
    ]  # fmt: skip
    assert (default.delay(4, chance=0), default.delay(4, chance=1)) == (4, 8)


def test_u4_a_policy_keeps_the_values_it_is_given() -> None:
    """Underway: the builder's values are kept. Headway: the arguments' are."""
    policy = Retry(max_attempts=9, base="3s", cap="10s", jitter=0, backoff="linear")
    assert policy.max_attempts == 9
    assert [policy.delay(attempt, chance=0.9) for attempt in (1, 2, 3, 4)] == [3, 6, 9, 10]


def test_u5_migrations_fill_their_schema_and_leave_search_path_alone(dsn: str) -> None:
    """Underway: schema and ledger exist, search_path is as before. Headway: and nothing else exists."""
    with psycopg.connect(dsn) as conn:
        conn.execute("create schema elsewhere_u5")
        conn.execute("set search_path = elsewhere_u5")
        before = _relations(conn)
        conn.commit()
        _migrate_on(conn, "hw_u5")
        conn.commit()
        assert conn.execute("show search_path").fetchone() == ("elsewhere_u5",)
        made = _relations(conn) - before
        assert {"job", "archive", "migration"} <= {name for _, name in made}
        assert {schema for schema, _ in made} == {"hw_u5"}
        conn.execute("drop schema hw_u5, elsewhere_u5 cascade")


def _migrate_on(conn: psycopg.Connection[Any], schema: str) -> None:
    """What `headway migrate` runs, on a session that can be asked about itself afterwards."""
    plan = migrate.steps(schema)
    statement, params = next(plan)
    while True:
        cursor = conn.execute(statement, params or None)
        try:
            statement, params = plan.send(cursor.fetchall() if cursor.description else [])
        except StopIteration:
            return


def _relations(conn: psycopg.Connection[Any]) -> set[tuple[str, str]]:
    query = "select relnamespace::regnamespace::text, relname from pg_class"
    found = conn.execute(query).fetchall()
    return {(schema, name) for schema, name in found if schema != "pg_toast"}
