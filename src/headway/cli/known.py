"""A word about tasks that nobody has declared: more often a slip than one that is yet to come."""

from __future__ import annotations

from difflib import get_close_matches

import click

from headway.app import Headway
from headway.store import inspect


def note_unknown(hw: Headway, task: str | None) -> None:
    """Says on standard error that no worker has declared this task, flow or step."""
    if task is None:
        return
    names = hw.session.client.run_sync(inspect.tasks())
    known = {*names, *(name.split("/")[0] for name in names)}
    if task in known:
        return
    close = get_close_matches(task, known, 1)
    instead = f"; did you mean {close[0]!r}?" if close else ""
    click.echo(f"note: no worker has declared task {task!r} yet{instead}", err=True)
