"""`headway worker --processes N`: real processes, real kills."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.cli.conftest import APP, Spawn
from tests.fixtures.processes import WorkerProcess
from tests.support import DEADLINE, eventually_sync

TWO = ("--processes", "2", "--concurrency", "1", "--lease", "60s")
"""A lease that does not run out within a test: a worker that is off the list has signed off."""

Pids = Callable[[], set[int]]


@pytest.fixture
def alive(db: psycopg.Connection[Any]) -> Pids:
    """The processes of the workers that are signed on."""

    def pids() -> set[int]:
        rows = db.execute("select name from worker where expires_at > now()").fetchall()
        return {int(name.rpartition(":")[2]) for (name,) in rows}

    return pids


@pytest.fixture
def fleet(spawn_worker: Spawn, alive: Pids) -> WorkerProcess:
    """A supervisor with two workers that are signed on."""
    supervisor = spawn_worker(APP, *TWO)
    eventually_sync(lambda: len(alive()) == 2)
    return supervisor


def _hold_both(tasks: Headway, place: Path) -> list[Any]:
    """A job in the hands of each worker."""
    jobs = [tasks.tasks["hold"].enqueue_sync(str(place)) for _ in range(2)]
    began = [place / f"began-{job.id}" for job in jobs]
    eventually_sync(lambda: all(path.exists() and path.read_text() for path in began))
    assert len({path.read_text() for path in began}) == 2
    return jobs


def _is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody collects has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_worker_that_is_killed_is_replaced(
    fleet: WorkerProcess, alive: Pids, db: psycopg.Connection[Any]
) -> None:
    before = alive()
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    eventually_sync(lambda: len(alive() - before) == 1)
    assert "was killed by SIGKILL" in fleet.output()
    (replacement,) = alive() - before
    assert not _is_gone(replacement)
    fleet.send(signal.SIGTERM)
    assert fleet.wait() == 0
    names = db.execute("select name from worker where expires_at > now()").fetchall()
    assert [name for (name,) in names if not name.endswith(f":{victim}")] == []


@pytest.mark.parametrize("group", [False, True], ids=["SIGTERM", "Ctrl-C"])
def test_g11_a_signal_drains_every_worker(
    fleet: WorkerProcess,
    alive: Pids,
    tasks: Headway,
    tmp_path: Path,
    group: bool,
) -> None:
    pids = alive()
    jobs = _hold_both(tasks, tmp_path)
    if group:
        os.killpg(fleet.pid, signal.SIGINT)  # as a terminal does, to supervisor and workers alike
    else:
        fleet.send(signal.SIGTERM)
    eventually_sync(lambda: "draining 2 workers" in fleet.output())
    (tmp_path / "let-go").touch()
    assert fleet.wait() == 0
    assert [job.result_sync(timeout=DEADLINE) for job in jobs] == ["let go"] * 2
    assert alive() == set()
    assert all(_is_gone(pid) for pid in pids)


def test_g11_told_twice_nobody_is_waited_for(
    fleet: WorkerProcess,
    tasks: Headway,
    tmp_path: Path,
) -> None:
    jobs = _hold_both(tasks, tmp_path)

    def told_again() -> bool:
        if fleet.process.poll() is None:
            fleet.send(signal.SIGTERM)
        return all(job.status_sync().state == "ready" for job in jobs)

    eventually_sync(told_again)
    fleet.process.wait(DEADLINE)
    assert [job.status_sync().attempt for job in jobs] == [0, 0]


def test_g11_workers_drain_when_their_supervisor_is_killed(
    fleet: WorkerProcess,
    alive: Pids,
    tasks: Headway,
    tmp_path: Path,
) -> None:
    pids = alive()
    jobs = _hold_both(tasks, tmp_path)
    os.kill(fleet.pid, signal.SIGKILL)
    fleet.wait()
    eventually_sync(lambda: fleet.output().count("the supervisor is gone; draining") == 2)
    (tmp_path / "let-go").touch()
    assert [job.result_sync(timeout="60s") for job in jobs] == ["let go"] * 2
    eventually_sync(lambda: alive() == set())
    eventually_sync(lambda: all(_is_gone(pid) for pid in pids))


def test_a_worker_that_was_told_to_end_is_replaced_too(fleet: WorkerProcess, alive: Pids) -> None:
    before = alive()
    os.kill(min(before), signal.SIGTERM)
    eventually_sync(lambda: len(alive()) == 2 and len(alive() - before) == 1)
    assert "ended with exit code 0" in fleet.output()
