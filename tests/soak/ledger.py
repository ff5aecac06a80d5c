"""The ledger: what producers were told, what strangers asked for, what was broken and when."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID


@dataclass
class Ledger:
    """The facts that the soak itself knows. The counts compare the database with them."""

    log: Path
    seed: int
    made: dict[UUID, str] = field(default_factory=dict)
    """Acknowledged jobs, with their task."""
    calls: dict[int, str] = field(default_factory=dict)
    """Every number that was ever given to a call, with its task, whether or not it made a job."""
    in_transaction: set[int] = field(default_factory=set)
    """The numbers of calls in a transaction of the caller's, which may have been rolled back."""
    unkept: set[int] = field(default_factory=set)
    """The numbers of acknowledged calls whose jobs are not kept."""
    order: dict[int, list[UUID]] = field(default_factory=dict)
    """Acknowledged jobs of each account, in the order of their enqueues."""
    cancels: set[UUID] = field(default_factory=set)
    """Jobs that somebody asked to stop, or may have."""
    poisoned: dict[UUID, str] = field(default_factory=dict)
    """Jobs that must fail, with the type of their error."""
    unknown: set[UUID] = field(default_factory=set)
    """Jobs of a task that no worker knows: they stay."""
    late: set[UUID] = field(default_factory=set)
    """Jobs of a day to come, to be cancelled before the end."""
    wrong: list[str] = field(default_factory=list)
    """Violations that were seen while it ran."""
    exits: list[tuple[int, int, str, float]] = field(default_factory=list)
    """Ends of workers: process, exit code, what the soak had done to it, and when."""
    pauses: list[tuple[int, float, float]] = field(default_factory=list)
    """When which process was stopped and continued."""
    calm: list[tuple[float, float]] = field(default_factory=list)
    """When nothing was broken and every worker had to make progress."""
    faults: Counter[str] = field(default_factory=Counter[str])
    recent: list[str] = field(default_factory=list)

    def call(self, task: str) -> int:
        """Return the number of a new call of this task."""
        number = len(self.calls) + 1
        self.calls[number] = task
        return number

    def fault(self, name: str, words: str = "") -> None:
        """Write down that something is about to be broken."""
        self.faults[name] += 1
        self.say(f"{name} {words}".strip())

    def say(self, words: str) -> None:
        now = time.time()
        moment = time.strftime("%H:%M:%S", time.localtime(now)) + f".{int(now % 1 * 1000):03d}"
        line = f"{moment} {words}"
        self.recent.append(line)
        with self.log.open("a") as log:
            log.write(line + "\n")
