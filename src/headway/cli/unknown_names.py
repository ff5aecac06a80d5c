"""Notes about names that nothing uses yet. They are usually typing errors."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

import click

from headway.app import Headway
from headway.cli.exits import CommandRefused


def note_unknown(hw: Headway, task: str | None) -> None:
    """Print a note if no worker has declared this task, flow or step."""
    if task is None:
        return
    names = hw.workers.handlers_sync()
    known = {*names, *(name.split("/")[0] for name in names)}
    if task not in known:
        _note(f"no worker has declared task {task!r} yet", task, known)


def note_unknown_queue(hw: Headway, queue: str | None) -> None:
    """Print a note if no job, worker or task uses this queue."""
    if queue is None:
        return
    known = {row.name for row in hw.queues.list_sync()} | {*hw.workers.handlers_sync().values()}
    known |= {name for worker in hw.workers.list_sync() for name in worker.queues}
    if queue not in known:
        _note(f"no job, worker or task uses queue {queue!r} yet", queue, known)


def refuse_flow(hw: Headway, task: str | None) -> None:
    """Refuse a limit on a flow, which would have no effect: limits apply to its steps."""
    names = hw.workers.handlers_sync() if task is not None else {}
    steps = [name for name in names if name.startswith(f"{task}/")]
    if steps:
        raise CommandRefused(
            f"{task} is a flow, and limits apply to steps; limit one of them: "
            + ", ".join(f"--task {step}" for step in steps[:5])
        )


def _note(words: str, name: str, known: Collection[str]) -> None:
    close = get_close_matches(name, known, 1)
    instead = f"; did you mean {close[0]!r}?" if close else ""
    click.echo(f"note: {words}{instead}", err=True)
