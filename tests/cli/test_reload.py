"""`headway worker --reload`: changed code starts the worker again, broken code waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.cli.worker.reload import changed, look
from tests.cli.conftest import Command
from tests.support import DEADLINE, eventually_sync

_CODE = """
import os
from headway import Headway

hw = Headway(schema=os.environ["TEST_SCHEMA"])

@hw.task
def who() -> str:
    return {answer!r}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "reloaded.py").write_text(_CODE.format(answer="first"))
    return tmp_path / "project"


@pytest.fixture
def worker(project: Path, dsn: str, schema: str) -> Iterator[subprocess.Popen[bytes]]:
    words = ["worker", "reloaded:hw", "--reload", "--grace", "1s"]
    environment = os.environ | {"HEADWAY_DATABASE_URL": dsn, "TEST_SCHEMA": schema}
    process = subprocess.Popen(
        [sys.executable, "-m", "headway", *words],
        cwd=project,
        env=environment,
        start_new_session=True,
    )
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_change_starts_the_worker_again_and_broken_code_waits_for_the_next(
    app: Headway, worker: subprocess.Popen[bytes], project: Path, db: psycopg.Connection[Any]
) -> None:
    def alive() -> set[int]:
        return {row[0] for row in db.execute("select id from worker where expires_at > now()")}

    code = project / "reloaded.py"
    first = eventually_sync(alive)
    assert app.jobs.enqueue_sync("who").result_sync(DEADLINE) == "first"
    code.write_text("this is not Python")
    eventually_sync(lambda: not alive())
    code.write_text(_CODE.format(answer="second"))
    eventually_sync(lambda: alive() - (first or set()))
    assert app.jobs.enqueue_sync("who").result_sync(DEADLINE) == "second"
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(DEADLINE) == 0
    assert not alive()


def test_the_worker_drains_when_its_watcher_is_killed(
    worker: subprocess.Popen[bytes], db: psycopg.Connection[Any]
) -> None:
    def alive() -> bool:
        return bool(db.execute("select 1 from worker where expires_at > now()").fetchone())

    eventually_sync(alive)
    worker.kill()
    eventually_sync(lambda: not alive())


def test_sources_are_watched_and_environments_are_not(tmp_path: Path) -> None:
    kept = [tmp_path / "a.py", tmp_path / "below" / "headway.toml", tmp_path / ".env"]
    left = [
        tmp_path / "a.txt",
        tmp_path / ".git" / "b.py",
        tmp_path / "node_modules" / "c.py",
        tmp_path / "venv" / "d.py",
    ]
    for path in (*kept, *left, tmp_path / "venv" / "pyvenv.cfg"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    before = look(tmp_path)
    assert set(before) == {str(path) for path in kept}
    kept[0].unlink()
    (tmp_path / "new.py").write_text("")
    assert changed(before, look(tmp_path)) == [str(kept[0]), str(tmp_path / "new.py")]


def test_several_processes_are_refused(headway: Command) -> None:
    headway("worker", "reloaded:hw", "--reload", "--processes", "2", code=2)
