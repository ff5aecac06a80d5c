"""Output of commands: JSON for programs, tables for people."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from headway.core import codec
from headway.core.duration import in_words
from headway.core.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_PIPE_WIDTH = 200
"""Width of tables without a terminal, so that nothing is cut."""

COLOURS = {
    "ready": "cyan",
    "scheduled": "blue",
    "blocked": "magenta",
    "waiting": "magenta",
    "running": "yellow",
    "succeeded": "green",
    "failed": "bold red",
    "cancelled": "dim",
    "expired": "red",
}


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    click.echo(codec.encode_for_people(value))


def print_json_line(value: Any) -> None:
    """Print one of many JSON documents, one per line, and flush it."""
    click.echo(codec.encode_document(value))


def console() -> Console:
    """Return standard output for people.

    Text from jobs is data: it is not read as markup, and it cannot control the terminal.
    """
    from rich.console import Console

    class Screen(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(clean(text), **options)

    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Screen(width=width, markup=False, highlight=False, emoji=False)


def table(*columns: str, title: str | None = None) -> Table:
    """Return a table. A name that ends in `>` is a column of numbers, in `!` one that is never cut."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for column in columns:
        made.add_column(
            column.rstrip(">!"),
            justify="right" if column.endswith(">") else "left",
            no_wrap=column.endswith((">", "!")),
        )
    return made


def coloured_state(label: str) -> Text:
    """Return the label of a state in its colour."""
    from rich.text import Text

    return Text(label, style=COLOURS.get(label, ""))


def ago(moment: datetime | None, now: datetime) -> str:
    """Return "3m 5s ago" or "in 2s", or nothing without a moment."""
    if moment is None:
        return ""
    away = (now - moment).total_seconds()
    return f"{in_words(away)} ago" if away >= 0 else f"in {in_words(-away)}"


def clean(text: str) -> str:
    """Return text of a job, safe to print: characters that control a terminal are escaped."""
    return printable(text, keep="\n\t")


def clean_name(text: str) -> str:
    """Return a name (of a task, step, queue, worker or schedule), safe to print in one line."""
    return printable(text)


def first_line(text: str, longest: int = 80) -> str:
    """Return the first line of a text, safe to print and cut to a length."""
    line = clean(text.strip().partition("\n")[0])
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 job", "2 jobs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def pause_in_words(actor: str | None, reason: str | None, lasting: float | None = None) -> str:
    """Return "by ada@host: provider down, resumes in 5m"."""
    words = f"by {actor or 'someone'}" + (f": {reason}" if reason else "")
    return words if lasting is None else f"{words}, resumes in {in_words(max(0.0, lasting))}"
