"""`headway queue`: look at queues, and say how they are to be served."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.options import as_json, database
from headway.cli.output import clean, clean_name, console, print_json, table
from headway.cli.person import pause_in_words
from headway.cli.queue_change import drain, metrics, move, purge
from headway.cli.queue_control import limit, limits, pause, resume
from headway.core.duration import in_words
from headway.core.limits import in_words as limits_in_words


@click.group
def queue() -> None:
    """Look at queues; pause, limit, purge and move them."""


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
        "limit",
        "paused",
    )
    for row in found:
        shown.add_row(
            clean_name(row.name),
            *map(str, (row.ready, row.scheduled, row.running, row.blocked, row.waiting)),
            "" if row.oldest_ready_age is None else in_words(max(0, row.oldest_ready_age)),
            limits_in_words(row.concurrency, row.rate, row.burst),
            clean(pause_in_words(row.paused_by, row.pause_reason, row.paused_for))
            if row.paused_at
            else "",
            style="dim" if row.paused_at else None,
        )
    console().print(shown)


for command in (pause, resume, limit, limits, metrics, purge, move, drain):
    queue.add_command(command)
