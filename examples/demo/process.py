"""A worker as users start it: a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

_PATIENCE = 60.0


class WorkerProcess:
    """`python -m headway worker shop:hw`, drained at the end of the block."""

    def __init__(self, log: Path) -> None:
        self.log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headway", "worker", "shop:hw", "--concurrency", "50"],
                # The same directory, so the same embedded server; the tasks are in this directory.
                env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us; we tell the worker what it means
            )

    def check(self) -> None:
        """Fails if the worker is gone."""
        if self._process.poll() is not None:
            end = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
            raise SystemExit(f"the worker ended with code {self._process.returncode}:\n{end}")

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode
