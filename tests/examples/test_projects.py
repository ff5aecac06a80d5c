"""The example projects of frameworks: their own tests, then their real servers and workers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from psycopg import sql

from tests.examples.markdown import ROOT
from tests.support import DEADLINE, eventually_sync


@dataclass(frozen=True)
class Project:
    """An example with a server, and with a worker unless that runs inside."""

    folder: str
    tests: list[str]
    prepare: list[str]
    serve: list[str]
    worker: list[str]
    place: str
    new: dict[str, str]
    done: dict[str, Any]


_PYTEST = ["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
PROJECTS = [
    Project(
        folder="fastapi_shop",
        tests=_PYTEST,
        prepare=["shop.py"],
        serve=["-m", "uvicorn", "shop:app", "--port", "PORT"],
        worker=[],
        place="/orders",
        new={"email": "ada@example.com"},
        done={"receipt": "receipts/ID.pdf", "email": "ada@example.com"},
    ),
    Project(
        folder="flask_notes",
        tests=_PYTEST,
        prepare=["-m", "flask", "--app", "notes", "migrate"],
        serve=["-m", "flask", "--app", "notes", "run", "--port", "PORT"],
        worker=["-m", "headway", "worker", "notes:hw"],
        place="/notes",
        new={"text": "hello"},
        done={"text": "hello", "translated": "de: hello"},
    ),
    Project(
        folder="django_shop",
        tests=["manage.py", "test", "--noinput"],
        prepare=["manage.py", "migrate"],
        serve=["manage.py", "runserver", "--noreload", "PORT"],
        worker=["manage.py", "headway", "worker"],
        place="/orders",
        new={"email": "ada@example.com"},
        done={"receipt": "receipts/ID.pdf", "charged": True},
    ),
]


@pytest.fixture
def environment(server_dsn: str) -> Iterator[dict[str, str]]:
    """A process's variables, which name an empty database."""
    name = f"headway_project_{os.getpid()}"
    drop = sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
    given = {
        key: str(value) for key, value in psycopg.conninfo.conninfo_to_dict(server_dsn).items()
    }
    given["dbname"] = name
    dsn = f"postgresql://?{httpx.QueryParams(given)}"
    keys = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD"}
    found = {variable: given.get(key, "") for key, variable in keys.items()}
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        conn.execute(drop)
        conn.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        unset = {"HEADWAY_DATABASE_URL", "DJANGO_SETTINGS_MODULE", *keys.values()}
        kept = {key: value for key, value in os.environ.items() if key not in unset}
        named = {"DATABASE_URL": dsn, "PGDATABASE": name}
        yield kept | named | {key: value for key, value in found.items() if value}
        conn.execute(drop)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts processes; those that are left are killed after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(words: list[str], folder: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
        with (tmp_path / f"{len(started)}.log").open("wb") as log:
            started.append(
                subprocess.Popen(
                    [sys.executable, *words], cwd=folder, env=env, stdout=log, stderr=log
                )
            )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
    for log in sorted(tmp_path.glob("*.log")):
        print(log.read_text(errors="replace"))


@pytest.mark.slow
@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.folder)
def test_a_project_passes_its_own_tests_and_works(
    project: Project,
    environment: dict[str, str],
    start: Callable[..., subprocess.Popen[bytes]],
) -> None:
    folder = ROOT / "examples" / project.folder
    for words in (project.tests, project.prepare):
        assert start(words, folder, environment).wait(DEADLINE) == 0, words

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    server = start([port if w == "PORT" else w for w in project.serve], folder, environment)
    worker = start(project.worker, folder, environment) if project.worker else None

    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=DEADLINE) as client:
        written = eventually_sync(lambda: _answer(client, "POST", project.place, json=project.new))
        expected = {
            key: value.replace("ID", str(written["id"])) if isinstance(value, str) else value
            for key, value in project.done.items()
        }
        address = f"{project.place}/{written['id']}"
        eventually_sync(lambda: _answer(client, "GET", address) == expected)

    for process in (server, worker):
        if process is not None:
            process.send_signal(signal.SIGTERM)
            process.wait(DEADLINE)
    assert worker is None or worker.returncode == 0, "it has drained"


def _answer(client: httpx.Client, method: str, place: str, **body: Any) -> Any:
    """Return the answer as JSON, or None if nobody listens yet."""
    try:
        return client.request(method, place, **body).raise_for_status().json()
    except httpx.ConnectError:
        return None
