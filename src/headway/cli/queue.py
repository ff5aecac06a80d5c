"""`headway queue`: look at queues, pause and resume them."""

from __future__ import annotations

import getpass
import socket

import click

from headway.app import Headway
from headway.cli.exits import DoesNotHold
from headway.cli.options import as_json, database
from headway.cli.output import clean, console, print_json, table
from headway.core.duration import in_words


@click.group
def queue() -> None:
    """Look at queues, pause and resume them."""


@queue.command("list")
@as_json
@database
def list_queues(hw: Headway, as_json: bool) -> None:
    """Every queue with live jobs or settings, and what waits in it."""
    found = hw.queues.list_sync()
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("no queue has live jobs, and none is paused")
        return
    shown = table(
        "queue",
        "ready>",
        "scheduled>",
        "running>",
        "blocked>",
        "waiting>",
        "oldest ready",
        "paused",
    )
    for row in found:
        shown.add_row(
            row.name,
            *map(str, (row.ready, row.scheduled, row.running, row.blocked, row.waiting)),
            "" if row.oldest_ready_age is None else in_words(max(0, row.oldest_ready_age)),
            "" if row.paused_at is None else clean(pause_in_words(row.paused_by, row.pause_reason)),
            style="dim" if row.paused_at else None,
        )
    console().print(shown)


@queue.command
@click.argument("name")
@click.option("--reason", help="Why, for whoever wonders.")
@as_json
@database
def pause(hw: Headway, name: str, reason: str | None, as_json: bool) -> None:
    """Stop claims from queue NAME everywhere; running jobs go on."""
    by = f"{_user()}@{socket.gethostname()}"
    hw.queues.pause_sync(name, reason=reason, by=by)
    if as_json:
        print_json({"queue": name, "paused": True, "by": by, "reason": reason})
    else:
        click.echo(f"queue {name} is paused; `headway queue resume {name}` opens it")


@queue.command
@click.argument("name")
@as_json
@database
def resume(hw: Headway, name: str, as_json: bool) -> None:
    """Open paused queue NAME."""
    resumed = hw.queues.resume_sync(name)
    if as_json:
        print_json({"queue": name, "paused": False, "resumed": resumed})
    if not resumed:
        raise DoesNotHold(f"queue {name} was not paused; `headway queue list` shows which are")
    if not as_json:
        click.echo(f"queue {name} is open")


def pause_in_words(by: str | None, reason: str | None) -> str:
    """ "by ada@host: provider down"."""
    return f"by {by or 'someone'}" + (f": {reason}" if reason else "")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return "someone"
