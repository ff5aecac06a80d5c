"""`headway errors`: recent failures, and failures as they happen."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headway import Fatal, Headway, Retry, Task
from headway.store import migrate
from tests.cli.conftest import Command
from tests.crash.server import OwnServer
from tests.support import DEADLINE

_ROOT = Path(__file__).parents[2]


def _broken(app: Headway) -> Task[..., None]:
    @app.task(retry=Retry(max_attempts=2, base=0))
    async def broken(why: str) -> None:
        raise Fatal(why) if why != "twice" else OSError(why)

    return broken


@pytest.fixture
def broken(app: Headway) -> Task[..., None]:
    return _broken(app)


def test_failures_are_shown_newest_last(
    headway: Command, broken: Task[..., None], app: Headway
) -> None:
    jobs = [broken.enqueue_sync(why) for why in ("first", "twice", "third\nand more")]
    for job in jobs:
        job.cancel_sync()
    for job in jobs:  # one after the other, so that their order is known
        job.retry_sync()
        app.run_until_idle_sync()
    lines = headway("errors").stdout.splitlines()
    assert [line.split("  ")[1] for line in lines] == [str(job.id) for job in jobs]
    assert lines[1].endswith("  broken  attempt 2  OSError: twice")
    assert lines[2].endswith("headway.errors.Fatal: third")
    assert [
        line.split("  ")[1] for line in headway("errors", "--limit", 1).stdout.splitlines()
    ] == [str(jobs[-1].id)]


def test_failures_are_narrowed_and_put_together(
    headway: Command, broken: Task[..., None], app: Headway
) -> None:
    for _ in range(3):
        broken.enqueue_sync("no route")
    app.run_until_idle_sync()
    assert headway("errors", "--task", "other").stdout == "no failures\n"
    assert headway("errors", "--since", "0s").stdout == "no failures\n"
    shown = headway("errors", "--group", "--since", "1h").stdout
    (line,) = (line for line in shown.splitlines() if "no route" in line)
    assert line.split()[:2] == ["3", "broken"]
    (told,) = headway("errors", "--group", "--json").stdout.splitlines()
    assert json.loads(told)["count"] == 3
    assert headway("errors", "--group", "--follow", code=2).stdout == ""


def test_programs_get_an_object_per_line_with_everything_that_is_known(
    headway: Command, broken: Task[..., None], app: Headway
) -> None:
    job = broken.using(headers={"trace": "abc"}).enqueue_sync("no")
    app.run_until_idle_sync()
    (line,) = headway("errors", "--json").stdout.splitlines()
    told = json.loads(line)
    assert told["job_id"] == str(job.id)
    assert (told["task"], told["step"], told["attempt"]) == ("broken", "", 1)
    assert told["input"] == {"why": "no"}
    assert told["headers"] == {"trace": "abc"}
    assert "raise Fatal(why)" in told["error"]["traceback"]
    assert headway("errors", "--task", "other", "--json").stdout == ""


Follow = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def follow() -> Iterator[Follow]:
    """Starts `headway errors --follow --json`; what is left of it is killed after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(dsn: str, schema: str, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "headway", "errors", "--follow", "--json", *words]
        process = subprocess.Popen(
            [*command, "--dsn", dsn, "--schema", schema],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.communicate()


def _next(process: subprocess.Popen[str]) -> str:
    """The id of the next failure that it tells of; the test's own timeout ends a wait in vain."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr.read() if process.stderr else ""
    job_id: str = json.loads(line)["job_id"]
    return job_id


def test_failures_are_followed_as_they_happen_until_ctrl_c(
    follow: Follow, broken: Task[..., None], app: Headway, dsn: str, schema: str
) -> None:
    process = follow(dsn, schema, "--since", "1h")
    for why in ("one", "two"):
        job = broken.enqueue_sync(why)
        app.run_until_idle_sync()
        assert _next(process) == str(job.id)
    process.send_signal(signal.SIGINT)
    rest, complaint = process.communicate(timeout=DEADLINE)
    assert (process.returncode, rest, complaint) == (0, "", f"using {app.place}\n")


def test_following_ends_after_as_many_of_a_task_as_asked_for(
    headway: Command, broken: Task[..., None], app: Headway
) -> None:
    @app.task
    async def other() -> None:
        raise Fatal("not this one")

    for _ in range(2):
        other.enqueue_sync()
        broken.enqueue_sync("this one")
    app.run_until_idle_sync()
    words = ("--since", "1h", "--limit", 2, "--task", "broken")
    lines = headway("errors", "--follow", *words).stdout.splitlines()
    assert len(lines) == 2
    assert all("this one" in line and "not" not in line for line in lines)


@pytest.fixture
def own_server() -> Iterator[OwnServer]:
    place = Path(tempfile.mkdtemp(prefix="headway-errors-"))  # short, for the name of a socket
    place.chmod(0o755)
    server = OwnServer(place, fsync="off").create().start()
    yield server
    server.stop()
    shutil.rmtree(place, ignore_errors=True)


def test_following_goes_on_after_the_server_was_started_again(
    follow: Follow, own_server: OwnServer
) -> None:
    """Failures after the restart are shown. Those that were shown before it are not shown again."""
    migrate.run_sync(own_server.dsn, "headway")
    process = follow(own_server.dsn, "headway", "--since", "1h")
    for restart in (True, False):
        with Headway(own_server.dsn) as app:
            job = _broken(app).enqueue_sync("no")
            app.run_until_idle_sync()
        assert _next(process) == str(job.id)
        if restart:
            own_server.restart()
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=DEADLINE)
    assert (process.returncode, rest) == (0, "")
