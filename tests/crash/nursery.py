"""Worker processes in no time: a process that has imported everything, and forks.

`python -m tests.crash.nursery` reads a line and answers with one: `start N` forks a worker with N slots
and says its pid, `alive` says yes or no. One worker at a time; it ends with its nursery.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path

from headway import Headway
from headway.engine import loop
from tests.crash.flows import register

LEASE = "1s"
_ROOT = Path(__file__).parents[2]


class Nursery:
    """The side of the test: `start`, `alive`, `kill`."""

    def __init__(self, dsn: str, schema: str, log: Path) -> None:
        environment = {"HEADWAY_DATABASE_URL": dsn, "TEST_SCHEMA": schema}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("wb"),
            text=True,
            cwd=_ROOT,
            env=os.environ | environment,
        )
        self._pid = 0
        self._started = threading.Event()

    def start(self, slots: int = 4) -> None:
        """A worker, in the place of the one before (which is killed if it still lives)."""
        self._started.clear()
        self._pid = int(self._ask(f"start {slots}"))
        self._started.set()

    def alive(self) -> bool:
        return self._ask("alive") == "yes"

    def send(self, number: signal.Signals) -> None:
        """To the worker, from any thread; if it has ended it is a zombie until the nursery is asked."""
        assert self._started.wait(30)
        os.kill(self._pid, number)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _ask(self, what: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        assert answer, "the nursery has ended; see its log"
        return answer


def _main() -> None:
    hw = Headway(schema=os.environ["TEST_SCHEMA"])
    register(hw)
    worker = 0
    for line in sys.stdin:
        ended = worker == 0 or os.waitpid(worker, os.WNOHANG) != (0, 0)
        if line.strip() == "alive":
            print("no" if ended else "yes", flush=True)
            worker = 0 if ended else worker
            continue
        if not ended:
            os.kill(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
        worker = os.fork()
        if worker == 0:
            _work(hw, int(line.split()[1]))
        print(worker, flush=True)
    if worker:
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)


def _work(hw: Headway, slots: int) -> None:
    try:
        loop.run(
            hw.run_worker(
                signals=True,
                concurrency=slots,
                transactions=slots,
                lease=LEASE,
                poll="200ms",
                grace="5s",
            )
        )
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    _main()
