"""Worker processes of `tests.crash.tasks`, a proxy before the server, servers of a test's own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.crash.proxy import Proxy
from tests.crash.server import OwnServer
from tests.crash.tasks import register
from tests.fixtures.processes import WorkerProcess

LEASE = "3s"


@pytest.fixture
def gates(tmp_path: Path) -> Path:
    """Where handlers look for the file that lets them go on."""
    place = tmp_path / "gates"
    place.mkdir()
    return place


@pytest.fixture
def seen(db: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """The test's schema with the table in which handlers tell what they do."""
    db.execute(
        """create table seen (number bigint generated always as identity, job_id uuid, run integer,
                              pid integer, what text, at timestamptz default clock_timestamp())"""
    )
    return db


@pytest.fixture
def worker(
    spawn_worker: Callable[..., WorkerProcess], dsn: str, gates: Path
) -> Callable[..., WorkerProcess]:
    """Starts a worker process of `tests.crash.tasks` with a short lease."""

    def start(*args: str, concurrency: int = 20, lease: str = LEASE, **env: str) -> WorkerProcess:
        env = {"SIDE_DSN": env.get("dsn", dsn), "GATES": str(gates)} | env
        env = {"HEADWAY_WORKER__ISOLATION": "8"} | env
        options = ("--concurrency", str(concurrency), "--lease", lease)
        return spawn_worker("tests.crash.tasks:hw", *options, *args, **env)

    return start


@pytest.fixture
def app(hw: Headway) -> Headway:
    """The tests' own app, with the workers' tasks."""
    return register(hw)


@pytest.fixture
def proxy(dsn: str) -> Iterator[Proxy]:
    with Proxy(dsn) as proxy:
        yield proxy


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every account may enter: root's `tmp_path` is not."""
    place = Path(tempfile.mkdtemp(prefix="headway-crash-", dir="/tmp"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.fixture
def own_server(place: Path) -> Iterator[OwnServer]:
    """A running server that this test may break."""
    home = place / "primary"
    home.mkdir(mode=0o755)
    server = OwnServer(home).create().start()
    yield server
    server.stop()
