"""The views `jobs` and `queues`: the SQL that people may rely on (API.md)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.core.state import State
from tests.store.store import NOW, Store

# As promised; views may gain columns and never lose or rename one.
_JOBS = [
    "id",
    "task",
    "queue",
    "step",
    "state",
    "priority",
    "attempt",
    "run_at",
    "created_at",
    "started_at",
    "finished_at",
    "worker",
    "input",
    "result",
    "error",
    "headers",
    "keys",
]
_JOBS_AND_MORE = {*_JOBS, "max_attempts", "progress", "expires_at"}
_QUEUES = [
    "queue",
    "ready",
    "scheduled",
    "blocked",
    "running",
    "waiting",
    "oldest_ready_at",
    "paused",
    "paused_at",
    "paused_by",
    "pause_reason",
    "paused_until",
    "concurrency",
    "rate",
    "burst",
    "estimated",
]


def _columns(store: Store, view: str) -> dict[str, str]:
    rows = store.rows(
        "select column_name, data_type from information_schema.columns "
        "where table_schema = %s and table_name = %s",
        store.schema,
        view,
    )
    return {row["column_name"]: row["data_type"] for row in rows}


def test_jobs_has_the_columns_that_were_promised(store: Store) -> None:
    columns = _columns(store, "jobs")
    assert set(columns) == _JOBS_AND_MORE
    assert columns["id"] == "uuid"
    assert columns["state"] == "text", "a word, not a letter"
    for payload in ("input", "result", "error", "headers"):
        assert columns[payload] == "jsonb"
    for moment in ("run_at", "created_at", "started_at", "finished_at"):
        assert columns[moment] == "timestamp with time zone"


def test_queues_has_the_columns_that_were_promised(store: Store) -> None:
    assert set(_columns(store, "queues")) == set(_QUEUES)


@pytest.mark.parametrize("view", ["jobs", "queues"])
def test_a_view_says_what_it_promises(store: Store, view: str) -> None:
    query = "select obj_description(to_regclass(%s)) as words"
    assert "Stable" in store.one(query, f"{store.schema}.{view}")["words"]


@pytest.mark.parametrize("state", State, ids=lambda s: s.label)
def test_every_state_has_a_word(store: Store, state: State) -> None:
    row = store.one('select label(%s::text::"char") as word', state.value)
    assert row["word"] == state.label


def test_live_and_archived_jobs_read_alike(store: Store, worker: int) -> None:
    done = store.held(worker, queue="mail", priority=1, input={"a": 1}, headers={"h": "v"})
    store.advance(2)
    store.settle(done, "succeed", result={"ok": 1})
    running = store.held(worker, ttl=60.0)
    waiting = store.enqueue(delay=9.0)
    shown = {str(row["id"]): row for row in store.rows("select * from jobs")}
    assert set(shown) == {done.id, running.id, str(waiting)}
    assert shown[done.id] == shown[done.id] | {
        "task": "resize",
        "queue": "mail",
        "step": "",
        "state": "succeeded",
        "priority": 1,
        "attempt": 1,
        "max_attempts": 3,
        "run_at": NOW,
        "created_at": NOW,
        "started_at": NOW,
        "finished_at": NOW + timedelta(seconds=2),
        "worker": worker,
        "input": {"a": 1},
        "result": {"ok": 1},
        "error": None,
        "headers": {"h": "v"},
        "keys": None,
    }
    assert shown[running.id]["state"] == "running"
    assert shown[running.id]["started_at"] == store.now
    assert shown[running.id]["worker"] == worker
    assert shown[running.id]["expires_at"] == store.now + timedelta(seconds=60)
    row = shown[str(waiting)]
    assert (row["state"], row["started_at"], row["worker"]) == ("scheduled", None, None)


def test_queues_counts_each_live_state_and_shows_pauses(store: Store, worker: int) -> None:
    store.held(worker, queue="a")
    store.enqueue(queue="a")
    store.enqueue(queue="a", delay=5.0)
    for letter in ("b", "w"):
        job_id = store.enqueue(queue="a")
        store.rows("update job set state = %s where id = %s returning 1", letter, job_id)
    store.settle(store.held(worker, queue="done"), "succeed")
    store.pause("idle", actor="ada", reason="why")
    shown = {row["queue"]: row for row in store.rows("select * from queues")}
    assert set(shown) == {"a", "idle"}, "a queue with nothing but finished jobs has nothing to show"
    counts = ("ready", "scheduled", "blocked", "running", "waiting")
    assert [shown["a"][name] for name in counts] == [1, 1, 1, 1, 1]
    assert (shown["a"]["paused"], shown["a"]["oldest_ready_at"]) == (False, NOW)
    assert [shown["idle"][name] for name in counts] == [0, 0, 0, 0, 0]
    assert (shown["idle"]["paused"], shown["idle"]["pause_reason"]) == (True, "why")
