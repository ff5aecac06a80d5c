"""What commands print: JSON for programs, tables for people."""

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
"""Where there is no terminal nothing is cut to the width of one."""

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
    """One document on standard output."""
    click.echo(codec.encode_for_people(value))


def print_json_line(value: Any) -> None:
    """One of many documents on standard output, a line each, written at once."""
    click.echo(codec.encode_document(value))


def console() -> Console:
    """Standard output for people. What jobs hold is data: no markup is read in it, and nothing in it
    steers the terminal."""
    from rich.console import Console

    class Screen(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(clean(text), **options)

    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Screen(width=width, markup=False, highlight=False, emoji=False)


def table(*columns: str, title: str | None = None) -> Table:
    """A table; columns whose name ends in `>` hold numbers, `!` what must not be cut."""
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
    from rich.text import Text

    return Text(label, style=COLOURS.get(label, ""))


def ago(moment: datetime | None, now: datetime) -> str:
    """ "3m 5s ago", "in 2s", or nothing."""
    if moment is None:
        return ""
    away = (now - moment).total_seconds()
    return f"{in_words(away)} ago" if away >= 0 else f"in {in_words(-away)}"


def clean(text: str) -> str:
    """Return text of a job's, safe to print: what could steer a terminal is spelled out."""
    return printable(text, keep="\n\t")


def clean_name(text: str) -> str:
    """Return the name of a task, step, queue, worker or schedule, safe to print in a line."""
    return printable(text)


def first_line(text: str, longest: int = 80) -> str:
    line = clean(text.strip().partition("\n")[0])
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
