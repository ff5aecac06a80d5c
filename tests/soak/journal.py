"""The journal: what handlers did, and when, in one file that no fault of the soak touches.

Every process appends lines to it by single writes, which the kernel keeps whole. So a killed process
loses nothing that it had written, and a handler never waits for anything.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from headway import Context

PLACE = "SOAK_JOURNAL"

_numbers = itertools.count(1)
_file: tuple[int, int] | None = None
"""This process, and its descriptor of the journal."""


def note(what: str, **about: Any) -> None:
    """Append one line."""
    global _file
    pid = os.getpid()
    if _file is None or _file[0] != pid:
        _file = (pid, os.open(os.environ[PLACE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644))
    line = json.dumps({"what": what, "at": time.time(), "pid": pid, **about}, default=str)
    os.write(_file[1], line.encode() + b"\n")


@contextmanager
def recorded(ctx: Context, key: str = "") -> Iterator[None]:
    """Note the beginning and the end of a handler."""
    run = next(_numbers)
    note("began", run=run, job=ctx.job_id, task=ctx.task, step=ctx.step, n=ctx.attempt, key=key)
    try:
        yield
    except BaseException as error:
        note("stopped", run=run, why=type(error).__name__)
        raise
    note("ended", run=run)


@dataclass(slots=True)
class Run:
    """One run of a handler."""

    job: UUID
    handler: str
    key: str
    pid: int
    attempt: int
    began: float
    ended: float
    """The beginning, if no end was noted: the process died, or the thread was interrupted."""
    whole: bool = False
    """It returned."""


class Journal:
    """The journal, read."""

    def __init__(self, place: Path) -> None:
        self.runs: list[Run] = []
        self.killers = set[int]()
        """Processes that a handler ended on purpose."""
        under_way: dict[tuple[int, int], Run] = {}
        for line in place.read_text().splitlines() if place.exists() else ():
            entry = json.loads(line)
            place_of = (entry["pid"], entry.get("run", 0))
            match entry["what"]:
                case "began":
                    handler = entry["task"] + ("/" + entry["step"] if entry["step"] else "")
                    run = Run(
                        UUID(entry["job"]), handler, entry["key"], entry["pid"], entry["n"],
                        entry["at"], entry["at"],
                    )  # fmt: skip
                    under_way[place_of] = run
                    self.runs.append(run)
                case "ended" | "stopped":
                    run = under_way.pop(place_of)
                    run.ended, run.whole = entry["at"], entry["what"] == "ended"
                case "kills":
                    self.killers.add(entry["pid"])
                case _:
                    pass
