from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from headway import Headway, Task
from headway.cli.findings import examine
from headway.core.clock import wall
from headway.core.info import ServerInfo
from headway.store import migrate
from headway.store.statements import fleet
from tests.cli.conftest import Command

_NOWHERE = "postgresql://localhost:1/nowhere"


def _worker(app: Headway, *, queues: list[str], tasks: list[str], version: str = "0") -> int:
    row = fleet.register("elsewhere:1", version, 10, queues, tasks, 60, None)
    return app._session.client.run_sync(row)


@pytest.fixture
def task(app: Headway) -> Task[..., None]:
    @app.task(queue="mail")
    async def send() -> None: ...

    return send


def _words(health: dict[str, Any], about: str) -> tuple[str, str]:
    (finding,) = [f for f in health["findings"] if f["about"] == about]
    return finding["status"], finding["words"]


def test_a_healthy_fleet_is_exit_code_0(
    headway: Command, headway_json: Callable[..., Any], app: Headway, task: Task[..., None]
) -> None:
    worker = _worker(app, queues=["mail"], tasks=["send"])
    task.enqueue_sync()
    health = headway_json("health")
    assert health["ok"] is True
    assert {finding["status"] for finding in health["findings"]} == {"ok"}
    assert health["schema_version"] == migrate.newest()
    assert health["acquire_ms"] > 0
    assert health["ping_ms"] > 0
    assert [row["id"] for row in health["workers"]] == [worker]
    assert health["server_version"] in _words(health, "database")[1]
    assert "elsewhere:1, 10 slots, queues: mail" in _words(health, f"worker {worker}")[1]
    assert _words(health, "queue mail")[1].startswith("1 ready, 0 scheduled, 0 running; the oldest")
    shown = headway("health").stdout
    for words in ("database", "schema", "clock", f"worker {worker}", "queue mail"):
        assert words in shown


def test_an_idle_database_without_workers_is_worth_a_note(
    headway_json: Callable[..., Any],
) -> None:
    health = headway_json("health")
    assert health["ok"] is True
    assert _words(health, "workers")[0] == "note"


def test_jobs_without_a_live_worker_are_wrong(
    headway: Command, headway_json: Callable[..., Any], task: Task[..., None]
) -> None:
    task.enqueue_sync()
    health = headway_json("health", code=1)
    assert health["ok"] is False
    status, words = _words(health, "workers")
    assert status == "wrong"
    assert "headway worker module:hw" in words
    assert "wrong" in headway("health", code=1).stdout


def test_g8_a_task_that_no_worker_knows_is_wrong(
    headway_json: Callable[..., Any], app: Headway, task: Task[..., None]
) -> None:
    _worker(app, queues=["mail"], tasks=["other"])
    task.enqueue_sync()
    health = headway_json("health", code=1)
    assert health["stranded"] == {"send": 1}
    assert _words(health, "task send")[0] == "wrong"


def test_a_pause_is_a_note_with_actor_and_reason(
    headway_json: Callable[..., Any], app: Headway
) -> None:
    app.queues.pause_sync("mail", reason="provider down", actor="ada@desk")
    assert _words(headway_json("health"), "queue mail") == (
        "note",
        "0 ready, 0 scheduled, 0 running; paused by ada@desk: provider down",
    )


def test_a_job_that_waited_too_long_is_wrong_if_one_says_so(
    headway_json: Callable[..., Any],
    app: Headway,
    task: Task[..., None],
    db: psycopg.Connection[Any],
) -> None:
    _worker(app, queues=["mail"], tasks=["send"])
    task.enqueue_sync()
    db.execute("update job set run_at = now() - interval '10 min'")
    headway_json("health", "--max-wait", "1h")
    status, words = _words(headway_json("health", "--max-wait", "5m", code=1), "queue mail")
    assert status == "wrong"
    assert words.endswith("the oldest ready job has waited 10m, more than 5m")


def test_an_unreachable_database_is_exit_code_3(
    headway: Command, headway_json: Callable[..., Any]
) -> None:
    health = headway_json("health", "--dsn", _NOWHERE, code=3)
    assert health["ok"] is False
    assert _words(health, "database")[0] == "wrong"
    assert "connection failed" in headway("health", "--dsn", _NOWHERE, code=3).stdout


def test_a_missing_schema_is_unhealthy(headway_json: Callable[..., Any]) -> None:
    health = headway_json("health", "--schema", "not_there", code=1)
    assert _words(health, "database")[0] == "ok"
    status, words = _words(health, "schema")
    assert status == "wrong"
    assert "headway migrate" in words


@pytest.mark.parametrize(
    ("apart", "status", "words"),
    [
        (0.2, "ok", "200ms from this machine's"),
        (90.0, "note", "1m 30s ahead of this machine's"),
        (-90.0, "note", "1m 30s behind this machine's"),
    ],
)
def test_g10_clocks_that_differ_are_a_note_and_nothing_worse(
    apart: float, status: str, words: str
) -> None:
    server = ServerInfo(in_recovery=False, version="18", now=wall())
    findings = examine("host db", server, 0.01, 0.001, apart, "headway", [], [], {}, [], None)
    (clock,) = [finding for finding in findings if finding.about == "clock"]
    assert clock.status == status
    assert clock.words.startswith(words)


def test_jobs_that_wait_for_their_key_are_counted(
    headway_json: Callable[..., Any], app: Headway, task: Task[..., None]
) -> None:
    task.using(concurrency_key="k").enqueue_sync()
    health = headway_json("health", code=1)
    assert _words(health, "workers")[1] == (
        "no worker is alive, with 1 unfinished job; start one: headway worker module:hw"
    )
    assert _words(health, "queue mail")[1] == "0 ready, 0 scheduled, 0 running, 1 blocked"


def test_what_a_worker_says_of_itself_is_shown(
    headway_json: Callable[..., Any], app: Headway
) -> None:
    run = app._session.client.run_sync
    hears, polls, drains = [_worker(app, queues=["mail"], tasks=["send"]) for _ in range(3)]
    run(fleet.heartbeat(hears, 60, None, listening=True))
    run(fleet.heartbeat(polls, 60, None, listening=False))
    assert app.workers.drain_sync(drains) is True
    health = headway_json("health")
    assert health["ok"] is True
    assert _words(health, f"worker {hears}")[0] == "ok"
    status, words = _words(health, f"worker {polls}")
    assert (status, words.split("; ")[2]) == ("note", "gets no notifications, so it polls")
    status, words = _words(health, f"worker {drains}")
    assert (status, words.split("; ")[2]) == ("note", "draining")
    rows = {row["id"]: (row["listening"], row["draining"]) for row in health["workers"]}
    assert rows == {hears: (True, False), polls: (False, False), drains: (None, True)}


def test_g13_workers_of_several_versions_and_with_other_code_are_notes(
    headway_json: Callable[..., Any], app: Headway
) -> None:
    _worker(app, queues=["mail", "web"], tasks=["send", "greet"], version="2")
    old = _worker(app, queues=["mail"], tasks=["send"], version="1")
    _worker(app, queues=["mail"], tasks=[], version="sql")
    health = headway_json("health")
    assert health["ok"] is True
    status, words = _words(health, "versions")
    assert (status, words.split(";")[0]) == ("note", "1 worker of 1, 1 worker of 2")
    status, words = _words(health, "code of mail")
    assert status == "note"
    assert words.endswith(f"know greet (worker {old})")
    assert not [each for each in health["findings"] if each["about"] == "code of web"]


def test_workers_that_all_drain_are_none_for_what_waits(
    headway_json: Callable[..., Any], app: Headway, task: Task[..., None]
) -> None:
    first, second = [_worker(app, queues=["mail"], tasks=["send"]) for _ in range(2)]
    task.enqueue_sync()
    assert app.workers.drain_sync(first) is True
    assert headway_json("health")["ok"] is True
    assert app.workers.drain_sync(second) is True
    health = headway_json("health", code=1)
    assert _words(health, "workers") == (
        "wrong",
        "every live worker is draining, with 1 unfinished job; start one: headway worker module:hw",
    )
    assert _words(health, f"worker {first}")[0] == "note"


def test_what_runs_out_under_workers_that_drain_is_no_fault(
    headway_json: Callable[..., Any],
    app: Headway,
    task: Task[..., None],
    db: psycopg.Connection[Any],
) -> None:
    worker = _worker(app, queues=["mail"], tasks=["send"])
    task.enqueue_sync()
    db.execute("update job set state = 'x', worker_id = %s, claim = 1, attempt = 1", [worker])
    assert app.workers.drain_sync(worker) is True
    health = headway_json("health")
    assert _words(health, "workers")[0] == "note"
    assert _words(health, "queue mail")[1].startswith("0 ready, 0 scheduled, 1 running")


def test_a_queue_s_limits_are_shown(headway_json: Callable[..., Any], app: Headway) -> None:
    app.queues.limit_sync("mail", concurrency=3, rate="100/min")
    status, words = _words(headway_json("health"), "queue mail")
    assert status == "ok"
    assert words == "0 ready, 0 scheduled, 0 running; limit: 3 at once, 100/min"


def test_a_paused_task_is_a_note_with_actor_and_reason(
    headway_json: Callable[..., Any], app: Headway, task: Task[..., None]
) -> None:
    _worker(app, queues=["mail"], tasks=["send"])
    task.enqueue_sync()
    app.controls.pause_sync(task="send", reason="provider down", actor="ada@desk")
    health = headway_json("health")
    assert _words(health, "task send") == ("note", "paused by ada@desk: provider down")
    app.controls.resume_sync(task="send")
    assert "task send" not in [finding["about"] for finding in headway_json("health")["findings"]]


def test_the_longest_wait_may_be_configured(
    headway_json: Callable[..., Any],
    app: Headway,
    task: Task[..., None],
    db: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _worker(app, queues=["mail"], tasks=["send"])
    task.enqueue_sync()
    db.execute("update job set run_at = now() - interval '10 min'")
    monkeypatch.setenv("HEADWAY_HEALTH__MAX_WAIT", "5m")
    assert _words(headway_json("health", code=1), "queue mail")[0] == "wrong"
    headway_json("health", "--max-wait", "1h")


def test_g7_a_worker_in_trouble_is_wrong(
    headway: Callable[..., Any], headway_json: Callable[..., Any], app: Headway
) -> None:
    worker = _worker(app, queues=["mail"], tasks=["send"])
    trouble = "job_loop has failed for 45s, 12 times in a row: relation does not exist"
    app._session.client.run_sync(fleet.heartbeat(worker, 60, None, trouble=trouble))
    health = headway_json("health", code=1)
    status, words = _words(health, f"worker {worker}")
    assert (status, words.split("; ")[2]) == ("wrong", trouble)
    assert health["workers"][0]["trouble"] == trouble
    (row,) = headway_json("worker-list")
    assert row["trouble"] == trouble
    shown = " ".join(headway("worker-list").stdout.split())
    assert "unhealthy" in shown
    assert f"worker {worker}: {trouble}" in shown
