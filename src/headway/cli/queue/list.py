"""`headway queue list`: every queue with unfinished jobs, a pause or a limit."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.options import as_json, database
from headway.cli.output import clean, clean_name, console, pause_in_words, print_json, table
from headway.core.duration import in_words
from headway.core.limits import in_words as limits_in_words


@click.command("list")
@as_json
@database
def list_queues(hw: Headway, as_json: bool) -> None:
    """List every queue with unfinished jobs, a pause or a limit."""
    found = hw.queues.list_sync()
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("no queues with unfinished jobs, pauses or limits")
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
