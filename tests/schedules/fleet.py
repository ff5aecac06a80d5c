"""Worker processes that serve schedules, live at a moment that the test chooses, and can be killed.

`python -m tests.schedules.fleet` has imported everything and forks: it reads a line and answers with one.
`start` forks a worker and says its pid, `kill PID` kills one and says when it is gone. All end with it.
They read the time from the file $MOMENT: every lease ends whenever the test travels.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from headway import Headway, Schedule
from headway.core.clock import Clock
from headway.engine import loop
from tests.schedules.fleet_app import register
from tests.support import DEADLINE

_ROOT = Path(__file__).parents[2]

DECLARED = [
    Schedule("*/15 * * * *", name="quarters", catch_up="all", max_catch_up=10_000),
    Schedule("@every 37m", name="interval", catch_up="all", max_catch_up=10_000),
    Schedule("0 8 * * 1-5[Europe/Berlin]", name="workdays"),
    Schedule("30 2 * * *[Europe/Berlin]", name="nights, one of which has no such time"),
]
"""The schedules of the code. Every worker that starts declares them again."""


class Travelled(Clock):
    """A clock that shows what is written in a file."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self._place = place

    def now(self) -> datetime:
        return datetime.fromisoformat(self._place.read_text())


class Fleet:
    """The side of the test: some workers, each in its place, and the time they live in."""

    def __init__(self, size: int, dsn: str, schema: str, place: Path) -> None:
        self._moment = place / "moment"
        self.log = place / "fleet.log"
        self._size = size
        self._environment = {"HEADWAY_DATABASE_URL": dsn, "TEST_SCHEMA": schema}
        self._workers: list[str] = []
        self.kills = self.stops = 0

    @contextmanager
    def running(self, moment: datetime) -> Iterator[None]:
        """Workers from this moment on, killed in the end."""
        self.travel(moment)
        with self.log.open("wb") as log:
            self._nursery = subprocess.Popen(
                [sys.executable, "-m", "tests.schedules.fleet"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=_ROOT,
                env=os.environ | self._environment | {"MOMENT": str(self._moment)},
            )
        try:
            self._workers = [self._ask("start") for _ in range(self._size)]
            yield
        finally:
            assert self._nursery.stdin is not None
            self._nursery.stdin.close()
            self._nursery.wait(DEADLINE)
            print("\n".join(self.log.read_text(errors="replace").splitlines()[-50:]))

    def travel(self, moment: datetime) -> None:
        """It is this moment, for all of them at once."""
        written = self._moment.with_suffix(".new")
        written.write_text(moment.isoformat())
        written.replace(self._moment)

    def kill_one(self) -> None:
        """Kills the one that has lived longest, and starts another."""
        assert self._ask(f"kill {self._workers.pop(0)}") == "gone"
        self.kills += 1
        self._workers.append(self._ask("start"))

    def stop_one(self) -> None:
        """Lets the youngest stand still, wherever it is, until `go_on`."""
        os.kill(int(self._workers[-1]), signal.SIGSTOP)
        self.stops += 1

    def go_on(self) -> None:
        """Those that stand still know nothing of it."""
        for worker in self._workers:
            os.kill(int(worker), signal.SIGCONT)

    def firers(self) -> set[str]:
        """The processes that have fired something."""
        lines = self.log.read_text(errors="replace").splitlines()
        return {line.split()[0] for line in lines if " fired for " in line}

    def _ask(self, what: str) -> str:
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.write(what + "\n")
        self._nursery.stdin.flush()
        answer = self._nursery.stdout.readline().strip()
        assert answer, "the nursery has ended; see its log"
        return answer


def _main() -> None:
    hw = register(Headway(schema=os.environ["TEST_SCHEMA"]), DECLARED)
    hw._session.clock = Travelled(Path(os.environ["MOMENT"]))
    workers: set[int] = set()
    for line in sys.stdin:
        match line.split():
            case ["kill", pid]:
                _kill(int(pid), workers)
                print("gone", flush=True)
            case _:
                pid = os.fork()
                if pid == 0:
                    _work(hw)
                workers.add(pid)
                print(pid, flush=True)
    for pid in list(workers):
        _kill(pid, workers)


def _kill(pid: int, workers: set[int]) -> None:
    workers.remove(pid)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _work(hw: Headway) -> None:
    logging.basicConfig(format="%(process)d %(message)s", level=logging.INFO)
    try:
        loop.run(
            hw.run_worker(
                signals=True, concurrency=20, lease="3s", poll="100ms", poll_alone="100ms"
            )
        )
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    _main()
