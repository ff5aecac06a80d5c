"""`headway worker`: real processes for signals and logs, this process for options and refusals."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.cli.worker import run
from headway.core.config import WorkerOptions
from headway.errors import ResultTimeout
from tests.cli.conftest import APP, Command, Spawn
from tests.fixtures.processes import WorkerProcess
from tests.support import DEADLINE, eventually_sync

_NOWHERE = "postgresql://localhost:1/nowhere"


def serving(worker: WorkerProcess) -> WorkerProcess:
    """The worker, once it heeds signals."""

    def up() -> bool:
        assert worker.process.poll() is None, worker.output()
        return "serving" in worker.output()

    eventually_sync(up)
    return worker


def test_a_worker_runs_async_thread_and_process_tasks_of_every_queue(
    spawn_worker: Spawn, tasks: Headway
) -> None:
    worker = spawn_worker(APP)
    jobs = [
        tasks.tasks["add"].enqueue_sync(1, 2),
        tasks.tasks["mail"].enqueue_sync("ada"),
        tasks.tasks["square"].enqueue_sync(7),
    ]
    assert [job.result_sync(timeout="60s") for job in jobs] == [3, "sent to ada", 49]
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_g11_a_signal_drains_and_the_exit_code_is_0(
    spawn_worker: Spawn,
    tasks: Headway,
    db: psycopg.Connection[Any],
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    worker = spawn_worker(APP)
    job = tasks.tasks["hold"].enqueue_sync(str(tmp_path))
    eventually_sync(lambda: (tmp_path / f"began-{job.id}").exists())
    worker.send(number)
    eventually_sync(lambda: _claims_no_more(tasks))
    (tmp_path / "let-go").touch()
    assert worker.wait() == 0
    assert job.result_sync(timeout=DEADLINE) == "let go"
    assert db.execute("select count(*) from worker where expires_at > now()").fetchone() == (0,)


def _claims_no_more(tasks: Headway) -> bool:
    try:
        tasks.tasks["add"].enqueue_sync(1, 2).result_sync(timeout="300ms")
    except ResultTimeout:
        return True
    return False


def test_g11_told_twice_it_waits_for_nobody_and_the_job_goes_back(
    spawn_worker: Spawn, tasks: Headway, tmp_path: Path
) -> None:
    worker = spawn_worker(APP)
    job = tasks.tasks["hold"].enqueue_sync(str(tmp_path))
    eventually_sync(lambda: (tmp_path / f"began-{job.id}").exists())

    def told_again() -> bool:
        if worker.process.poll() is None:
            worker.send(signal.SIGTERM)
        return job.status_sync().state == "ready"

    eventually_sync(told_again)
    worker.process.wait(DEADLINE)
    assert job.status_sync().attempt == 0


def test_a_thread_that_hears_nothing_does_not_hold_up_the_exit(
    spawn_worker: Spawn, tasks: Headway, tmp_path: Path
) -> None:
    worker = spawn_worker(APP, "--grace", "100ms")
    job = tasks.tasks["stubborn"].enqueue_sync(str(tmp_path))
    eventually_sync(lambda: (tmp_path / "began-stubborn").exists())
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert job.status_sync().state == "ready"


def test_log_lines_for_programs_carry_the_job(spawn_worker: Spawn, tasks: Headway) -> None:
    worker = serving(spawn_worker(APP, "--log-format", "json"))
    job = tasks.tasks["fail"].enqueue_sync("because")
    eventually_sync(lambda: job.status_sync().finished)
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    lines = [json.loads(line) for line in worker.output().splitlines()]
    own = [line for line in lines if line.get("colour") == "red"]
    assert [line["attempt"] for line in own] == list(range(1, job.status_sync().attempt + 1))
    for line in own:
        assert (line["job_id"], line["task"], line["queue"]) == (str(job.id), "fail", "default")
    (end,) = [line for line in lines if line["level"] == "error"]
    assert end["job_id"] == str(job.id)
    assert "ValueError: because" in end["message"]


@dataclass
class Started:
    """A worker that the command would run."""

    app: Headway
    options: WorkerOptions
    log_level: int


@pytest.fixture
def started(headway: Command, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Started]:
    """Run `headway worker` up to the point where it would serve, in this process."""
    found: list[Started] = []

    async def serve(hw: Headway, options: Mapping[str, Any], *_: object) -> int:
        level = logging.getLogger().getEffectiveLevel()
        found.append(Started(hw, hw.settings.worker(options), level))
        return 0

    monkeypatch.setattr(run, "_serve", serve)

    def start(*words: str) -> Started:
        headway("worker", APP, *words)
        return found[-1]

    return start


def test_queues_have_weights_or_slots_of_their_own(started: Callable[..., Started]) -> None:
    words = ("-q", "mail:3", "--queue", "default", "-q", "reports=2", "-q", "*", "-c", "7")
    options = started(*words, "--order", "strict").options
    assert list(options.queues.items()) == [("mail", 3), ("default", 1), ("*", 1)]
    assert options.dedicated == {"reports": 2}
    assert (options.order, options.concurrency) == ("strict", 7)
    options = started("-q", "reports=2").options
    assert (options.queues, options.dedicated) == ({}, {"reports": 2})


def test_the_command_line_goes_before_the_environment(
    started: Callable[..., Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_WORKER__QUEUES", "mail:3, reports=2, *")
    monkeypatch.setenv("HEADWAY_WORKER__CONCURRENCY", "7")
    options = started().options
    assert (options.queues, options.dedicated) == ({"mail": 3, "*": 1}, {"reports": 2})
    assert options.concurrency == 7
    assert started("-c", "3").options.concurrency == 3


def test_the_interval_is_for_polling_with_or_without_notifications(
    started: Callable[..., Started],
) -> None:
    alone = started("--no-listen", "--poll", "50ms").options
    assert (alone.listen, alone.poll_alone) == (False, 0.05)
    both = started("--poll", "2s").options
    assert (both.listen, both.poll) == (True, 2.0)


def test_the_log_level_is_heeded(started: Callable[..., Started]) -> None:
    assert started("--log-level", "error").log_level == logging.ERROR
    assert started().log_level == logging.INFO


def test_dsn_and_schema_of_the_command_go_before_the_apps(
    started: Callable[..., Started], dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_DATABASE_URL", _NOWHERE)
    monkeypatch.setenv("TEST_SCHEMA", "not_there")
    app = started().app
    assert (app.dsn, app.schema) == (dsn, schema)


def test_a_worker_that_cannot_work_ends_with_an_exit_code(headway: Command) -> None:
    for words in (
        ["no.such.module"],
        ["tests.cli.shop:nope"],
        ["tests.cli.shop:add"],
        ["tests.cli.empty"],
        [APP, "--schema", "not_there"],
        [APP, "-q", "mail:many"],
        [APP, "-q", "reports=many"],
        [APP, "-q", "mail", "-q", "mail=2"],
        [APP, "-q", "*=3"],
        [APP, "--concurrency", "0"],
        [APP, "--lease", "10ms"],
    ):
        headway("worker", *words, code=2)
    for words in ([APP], [APP, "--processes", "2"]):
        headway("worker", *words, "--dsn", _NOWHERE, code=3)


@pytest.mark.parametrize("version", [0, 99])
def test_a_worker_refuses_an_older_or_newer_schema(
    headway: Command, db: psycopg.Connection[Any], version: int
) -> None:
    db.execute(
        "update migration set version = %s, suits = %s "
        "where version = (select max(version) from migration)",
        [version, version],
    )
    headway("worker", APP, code=2)
