"""`headway queue purge`, `move`, `drain` and `metrics`."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.cli.conftest import APP, Command, Spawn
from tests.cli.terminal import headway_at_terminal
from tests.support import DEADLINE, eventually_sync

_ROOT = Path(__file__).parents[2]
Json = Callable[..., Any]


@pytest.fixture
def send(app: Headway):
    @app.task(queue="mail")
    async def send(n: int = 0) -> None: ...

    return send


@pytest.fixture
def waiting(app: Headway, send) -> Any:
    """Three ready and two scheduled of one task, one ready of another, one elsewhere."""

    @app.task(queue="mail")
    async def other() -> None: ...

    send.enqueue_many_sync([{}] * 3)
    send.using(delay="1h").enqueue_many_sync([{}] * 2)
    other.enqueue_sync()
    send.using(queue="elsewhere").enqueue_sync()
    return send


def _queues(db: psycopg.Connection[Any]) -> dict[str, int]:
    return dict(db.execute("select queue, count(*) from job group by queue").fetchall())


def test_a_purge_shows_what_it_is_about_and_how_many_it_was(
    headway: Command, waiting, db: psycopg.Connection[Any]
) -> None:
    said = headway("queue", "purge", "mail", "--yes").stdout
    lines = [line.split() for line in said.splitlines()]
    assert lines[0] == ["6", "jobs", "waiting", "in", "queue", "mail:"]
    assert ["3", "send", "ready"] in lines
    assert ["2", "send", "scheduled"] in lines
    assert ["1", "other", "ready"] in lines
    assert lines[-1] == ["purged", "6", "jobs"]
    assert _queues(db) == {"elsewhere": 1}


def test_a_purge_of_one_task_leaves_the_others(
    headway: Command, waiting, db: psycopg.Connection[Any]
) -> None:
    assert "purged 5 jobs" in headway("queue", "purge", "mail", "--task", "send", "--yes").stdout
    assert _queues(db) == {"mail": 1, "elsewhere": 1}


def test_where_nobody_can_be_asked_nothing_is_done_without_yes(
    headway_json: Json, waiting, db: psycopg.Connection[Any]
) -> None:
    for words in (("purge", "mail"), ("move", "mail", "slow")):
        answer = headway_json("queue", *words, code=2)
        assert answer["matching"] == 6
        assert answer.get("purged", answer.get("moved")) == 0
    assert _queues(db) == {"mail": 6, "elsewhere": 1}


def test_programs_are_told_what_matched_and_what_was_done(
    headway_json: Json, waiting, db: psycopg.Connection[Any]
) -> None:
    answer = headway_json("queue", "purge", "mail", "--task", "send", "--yes")
    assert answer == {
        "queue": "mail",
        "task": "send",
        "matching": 5,
        "purged": 5,
        "groups": [
            {"task": "send", "state": "ready", "count": 3},
            {"task": "send", "state": "scheduled", "count": 2},
        ],
    }
    answer = headway_json("queue", "move", "mail", "slow", "--yes")
    assert (answer["queue"], answer["to"], answer["moved"]) == ("mail", "slow", 1)
    assert _queues(db) == {"slow": 1, "elsewhere": 1}


def test_what_is_empty_needs_no_yes_and_is_no_error(headway: Command, headway_json: Json) -> None:
    headway("queue", "move", "mail", "slow")
    assert headway_json("queue", "purge", "mail")["purged"] == 0


@pytest.mark.parametrize(("typed", "code", "left"), [("y\n", 0, 0), ("\n", 1, 3)])
def test_someone_at_a_terminal_is_asked(
    send, db: psycopg.Connection[Any], dsn: str, schema: str, typed: str, code: int, left: int
) -> None:
    send.enqueue_many_sync([{}] * 3)
    done = headway_at_terminal("queue", "purge", "mail", dsn=dsn, schema=schema, typed=typed)
    assert done.returncode == code, done.stderr
    assert _queues(db).get("mail", 0) == left


def test_a_large_change_shows_how_far_it_is_at_a_terminal(
    send, db: psycopg.Connection[Any], dsn: str, schema: str
) -> None:
    send.enqueue_many_sync({"n": n} for n in range(2_500))
    said, seen = _at_screen("queue", "move", "mail", "slow", "--yes", dsn=dsn, schema=schema)
    assert said.endswith("moved 2500 jobs\n")
    assert "moved" in seen
    assert "100%" in seen
    assert _queues(db) == {"slow": 2_500}


def _at_screen(*words: str, dsn: str, schema: str) -> tuple[str, str]:
    """Return the output of a command, and what it showed on a terminal meanwhile."""
    command = [sys.executable, "-m", "headway", *words, "--dsn", dsn, "--schema", schema]
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        try:
            while data := os.read(ours, 4_096):
                shown.append(data)
        except OSError:
            pass  # nobody has the other end any more

    reader = threading.Thread(target=read)
    reader.start()
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=theirs,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=2 * DEADLINE,
            cwd=_ROOT,
            env=os.environ | {"PYTHONPATH": str(_ROOT), "TERM": "xterm", "COLUMNS": "100"},
            check=True,
        )
    finally:
        os.close(theirs)
        reader.join(DEADLINE)
        os.close(ours)
    return done.stdout, b"".join(shown).decode()


def test_running_jobs_stay_and_a_drain_waits_for_them(
    headway: Command,
    headway_json: Json,
    spawn_worker: Spawn,
    tasks: Headway,
    tmp_path: Path,
) -> None:
    spawn_worker(APP, "--concurrency", "1")
    job = tasks.tasks["hold"].enqueue_sync(str(tmp_path))
    eventually_sync(lambda: (tmp_path / f"began-{job.id}").exists())
    tasks.tasks["hold"].enqueue_sync(str(tmp_path))
    assert "purged 1 job\n" in headway("queue", "purge", "default", "--yes").stdout
    assert job.status_sync().state == "running"

    answer = headway_json("queue", "drain", "default", "--timeout", "0s", code=1)
    assert answer == {"queue": "default", "paused": True, "running": 1}

    (tmp_path / "let-go").touch()
    headway("queue", "drain", "default")
    (row,) = headway_json("queue", "list")
    assert "@" in row["paused_by"]
    assert headway_json("queue", "drain", "default")["running"] == 0
    assert job.result_sync(timeout=DEADLINE) == "let go"


def test_metrics_of_one_queue_and_of_all(headway: Command, headway_json: Json, waiting) -> None:
    headway("queue", "purge", "mail", "--task", "other", "--yes")
    (row,) = headway_json("queue", "metrics", "mail")
    assert (row["name"], row["ready"], row["scheduled"], row["cancelled"]) == ("mail", 3, 2, 1)
    assert row["oldest_ready_age"] >= row["newest_ready_age"] >= 0
    assert row["estimated"] is False
    assert [row["name"] for row in headway_json("queue", "metrics")] == ["elsewhere", "mail"]
    (line,) = [line for line in headway("queue", "metrics").stdout.splitlines() if "mail" in line]
    assert line.split()[:6] == ["mail", "3", "2", "0", "0", "0"]
