"""Real servers in throw-away directories; none of them outlives its test."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from tests.support import DEADLINE

from headway.embedded import find_binaries

SOURCE = Path(__file__).parents[2] / "src"


class Holder:
    """A process that holds the server of `root`, as any client process does."""

    def __init__(self, root: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headway.embedded", "--root", str(root)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(SOURCE), *sys.path])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def dsn(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def let_go(self) -> int:
        self.process.communicate(timeout=DEADLINE)  # closes its standard input
        return self.process.returncode

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


class Watch:
    """Return what can be seen of the server of `root` from outside."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def home(self) -> Path:
        link = self.root / "elsewhere"  # when root runs the tests in its private tmp_path
        return link.resolve() if link.is_symlink() else self.root

    @property
    def data(self) -> Path:
        (found,) = self.home.glob("pg??")
        return found

    @property
    def log(self) -> str:
        (found,) = self.home.glob("pg??.log")
        return found.read_text()

    def lock(self, name: str) -> Path:
        return self.home / f"pg{find_binaries().major}.{name}.lock"

    def postmaster(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def watchdog(self) -> int:
        status = Path(f"/proc/{self.postmaster()}/status").read_text()
        return int(status.split("PPid:")[1].split()[0])

    def wait_until_stopped(self) -> None:
        """Sleeps in the kernel until the watchdog is gone, and with it the server."""
        with self.lock("watchdog").open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / ".headway"
    yield place
    clean_up(place)


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every account may enter: root's `tmp_path` is not."""
    place = Path(tempfile.mkdtemp(prefix="headway-test-", dir="/tmp"))
    place.chmod(0o755)
    yield place
    for root in [path.parent for path in place.rglob(".gitignore")]:
        clean_up(root)
    shutil.rmtree(place)


@pytest.fixture
def watch(root: Path) -> Watch:
    return Watch(root)


@pytest.fixture
def hold() -> Iterator[Callable[[Path], Holder]]:
    holders: list[Holder] = []

    def begin(root: Path) -> Holder:
        holders.append(Holder(root))
        return holders[-1]

    yield begin
    for holder in holders:
        holder.kill()


def clean_up(root: Path) -> None:
    watch = Watch(root)
    if watch.lock("watchdog").exists():
        watch.wait_until_stopped()
    shutil.rmtree(watch.home, ignore_errors=True)


@pytest.fixture
def ask() -> Callable[..., object]:
    def query(dsn: str, statement: str = "select pg_postmaster_start_time()") -> object:
        with psycopg.connect(dsn, autocommit=True) as connection:
            cursor = connection.execute(statement)
            row = cursor.fetchone() if cursor.description else None
            return row and row[0]

    return query
