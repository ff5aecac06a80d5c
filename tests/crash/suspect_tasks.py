"""Twenty that do no harm and one that kills its process, of every executor, for worker processes."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from headway import Headway, Retry

hw = Headway(schema=os.environ.get("TEST_SCHEMA"))
_GATES = Path(os.environ.get("GATES", "."))
_QUICK = Retry(max_attempts=1, base="50ms", cap="50ms", max_crashes=3)


def _begin(n: int) -> None:
    (_GATES / f"began {n}").touch()


def _is_over() -> bool:
    return (_GATES / "killed").exists()


def _kill(neighbours: int) -> None:
    """Kill this process once all the others have begun."""
    while sum(1 for _ in _GATES.glob("began *")) < neighbours:
        time.sleep(0.02)
    (_GATES / "killed").touch()
    os.kill(os.getpid(), signal.SIGKILL)


@hw.task(retry=_QUICK)
async def innocent(n: int) -> int:
    _begin(n)
    while not _is_over():
        await asyncio.sleep(0.02)
    return n


@hw.task(retry=_QUICK)
def innocent_thread(n: int) -> int:
    _begin(n)
    while not _is_over():
        time.sleep(0.02)
    return n


@hw.task(retry=_QUICK, executor="process")
def innocent_process(n: int) -> int:
    _begin(n)
    while not _is_over():
        time.sleep(0.02)
    return n


@hw.task(retry=_QUICK)
async def killer(neighbours: int) -> None:
    await asyncio.to_thread(_kill, neighbours)


@hw.task(retry=_QUICK)
def killer_thread(neighbours: int) -> None:
    _kill(neighbours)


@hw.task(retry=_QUICK, executor="process")
def killer_process(neighbours: int) -> None:
    _kill(neighbours)
