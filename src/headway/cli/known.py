"""A word about names that nobody knows: more often a slip than something that is yet to come."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

import click

from headway.app import Headway
from headway.cli.exits import Refused
from headway.store import inspect


def note_unknown(hw: Headway, task: str | None) -> None:
    """Says on standard error that no worker has declared this task, flow or step."""
    if task is None:
        return
    names = hw.session.client.run_sync(inspect.tasks())
    known = {*names, *(name.split("/")[0] for name in names)}
    if task not in known:
        _note(f"no worker has declared task {task!r} yet", task, known)


def note_unknown_queue(hw: Headway, queue: str | None) -> None:
    """Says on standard error that nothing is known of this queue: no job, worker or task names it."""
    if queue is None:
        return
    now = hw.session.clock.now()
    queues, workers, tasks = hw.session.client.run_all_sync(
        [inspect.queues(now), inspect.workers(now), inspect.tasks()]
    )
    known = {row.name for row in queues} | set(tasks.values())
    known |= {name for worker in workers for name in worker.queues}
    if queue not in known:
        _note(f"no job, worker or task names queue {queue!r} yet", queue, known)


def refuse_flow(hw: Headway, task: str | None) -> None:
    """Refuse a limit of a whole flow, which would limit nothing: its steps have limits."""
    names = hw.session.client.run_sync(inspect.tasks()) if task is not None else {}
    steps = [name for name in names if name.startswith(f"{task}/")]
    if steps:
        raise Refused(
            f"{task} is a flow, whose steps have limits of their own; limit one of them: "
            + ", ".join(f"--task {step}" for step in steps[:5])
        )


def _note(words: str, name: str, known: Collection[str]) -> None:
    close = get_close_matches(name, known, 1)
    instead = f"; did you mean {close[0]!r}?" if close else ""
    click.echo(f"note: {words}{instead}", err=True)
