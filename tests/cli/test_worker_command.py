"""`headway worker`, as a real process."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.errors import ResultTimeout
from tests.cli.conftest import APP, Spawn
from tests.fixtures.processes import WorkerProcess
from tests.support import DEADLINE, eventually_sync


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
    job = tasks.tasks["deaf"].enqueue_sync(str(tmp_path))
    eventually_sync(lambda: (tmp_path / "began-deaf").exists())
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert job.status_sync().state == "ready"


def test_only_the_queues_that_are_named_are_served(
    spawn_worker: Spawn, tasks: Headway, db: psycopg.Connection[Any]
) -> None:
    spawn_worker(APP, "-q", "mail:3", "--queue", "other", "--concurrency", "7")
    other = tasks.tasks["add"].enqueue_sync(1, 2)
    job = tasks.tasks["mail"].enqueue_sync("ada")
    assert job.result_sync(timeout="60s") == "sent to ada"
    assert other.status_sync().state == "ready"
    assert db.execute("select slots, queues from worker").fetchone() == (7, ["mail", "other"])


def test_without_listening_it_polls(
    spawn_worker: Spawn, tasks: Headway, db: psycopg.Connection[Any]
) -> None:
    serving(spawn_worker(APP, "--no-listen", "--poll", "50ms"))
    assert tasks.tasks["add"].enqueue_sync(1, 2).result_sync(timeout="60s") == 3
    of_the_worker = "datname = current_database() and application_name like 'headway worker %'"
    queries = db.execute(f"select query from pg_stat_activity where {of_the_worker}").fetchall()
    assert queries
    assert not [query for (query,) in queries if query.lower().startswith("listen")]


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


def test_the_log_level_is_heeded(spawn_worker: Spawn, tasks: Headway) -> None:
    worker = spawn_worker(APP, "--log-level", "error")
    assert tasks.tasks["add"].enqueue_sync(1, 2).result_sync(timeout="60s") == 3
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert worker.output() == ""


def test_dsn_and_schema_of_the_command_go_before_the_apps(
    spawn_worker: Spawn, tasks: Headway, dsn: str, schema: str
) -> None:
    nowhere = "postgresql://localhost:1/nowhere"
    spawn_worker(APP, "--dsn", dsn, "--schema", schema, dsn=nowhere, schema="not_there")
    assert tasks.tasks["add"].enqueue_sync(1, 2).result_sync(timeout="60s") == 3


@pytest.mark.parametrize(
    ("words", "env", "code", "complaint"),
    [
        (["no.such.module"], {}, 2, "there is no module 'no' here"),
        (["tests.cli.shop:nope"], {}, 2, "has no 'nope'; it has tests.cli.shop:hw"),
        (["tests.cli.shop:add"], {}, 2, "is not a Headway but 'Task'"),
        (["tests.cli.empty"], {}, 2, "this app has no tasks"),
        ([APP], {"dsn": "postgresql://localhost:1/nowhere"}, 3, "connection failed"),
        ([APP, "--processes", "2"], {"dsn": "postgresql://localhost:1/x"}, 3, "connection failed"),
        ([APP], {"schema": "not_there"}, 2, "run `headway migrate`"),
        ([APP, "-q", "mail:many"], {}, 2, "weight is a whole number"),
        ([APP, "--concurrency", "0"], {}, 2, "0 is not in the range"),
        ([APP, "--lease", "10ms"], {}, 2, "lease 0.01 must be at least a second"),
    ],
)
def test_a_worker_that_cannot_work_says_why_and_ends(
    spawn_worker: Spawn, words: list[str], env: dict[str, str], code: int, complaint: str
) -> None:
    worker = spawn_worker(*words, **env)
    assert worker.wait() == code
    assert complaint in " ".join(worker.output().split())
    assert "Traceback" not in worker.output()


@pytest.mark.parametrize(("version", "advice"), [(0, "run `headway migrate`"), (99, "upgrade")])
def test_a_worker_refuses_an_older_or_newer_schema(
    spawn_worker: Spawn, db: psycopg.Connection[Any], version: int, advice: str
) -> None:
    db.execute(
        "update migration set version = %s, suits = %s "
        "where version = (select max(version) from migration)",
        [version, version],
    )
    worker = spawn_worker(APP)
    assert worker.wait() == 2
    assert advice in worker.output()
