"""The person at the terminal: confirmation and progress of commands that take a while."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

import click

from headway.cli.exits import CommandFailed, CommandRefused
from headway.cli.output import counted


def at_terminal() -> bool:
    """Return whether a person can be asked."""
    return sys.stdin.isatty()


def confirm(verb: str, done: str, total: int, *, as_json: bool) -> None:
    """Return if the person at the terminal agrees.

    Raise CommandRefused if there is no terminal to ask on, and CommandFailed if the answer is no.
    """
    if as_json or not at_terminal():
        raise CommandRefused(
            f"not {done}: no terminal to confirm on; use --yes to {verb} {counted(total, 'job')}"
        )
    if not click.confirm(f"{verb.capitalize()} {counted(total, 'job')}?", err=True):
        raise CommandFailed(f"not {done}")


@contextmanager
def progress_bar(
    words: str, total: float, *, quiet: bool
) -> Generator[Callable[[float, str], None]]:
    """Show a progress bar on a terminal. Yield a function that takes how much is done, and new words."""
    from rich.console import Console
    from rich.progress import Progress

    screen = Console(stderr=True)
    visible = screen.is_terminal and not quiet
    with Progress(console=screen, transient=True, disable=not visible) as progress:
        bar = progress.add_task(words, total=total)
        yield lambda done, now: progress.update(bar, completed=done, description=now)


def with_progress(
    change: Callable[[Callable[[int], None]], int], done: str, total: int, *, quiet: bool
) -> int:
    """Make a change and show a progress bar on a terminal. Return the result of the change.

    `change` gets a function to call with the number of jobs done so far.
    """
    with progress_bar(done, total, quiet=quiet) as tell:
        return change(lambda so_far: tell(so_far, done))
