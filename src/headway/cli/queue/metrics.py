"""`headway queue metrics`: what queues hold, and how their jobs ended."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.options import as_json, database
from headway.cli.output import clean_name, console, print_json, table
from headway.core.duration import in_words


@click.command
@click.argument("name", required=False)
@as_json
@database
def metrics(hw: Headway, name: str | None, as_json: bool) -> None:
    """Show what queue NAME holds and how its jobs ended. Without NAME, show every queue."""
    found = hw.queues.metrics_sync() if name is None else [hw.queues.metrics_sync(name)]
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("no queue has ever had jobs")
        return
    numbers = ("ready", "scheduled", "blocked", "running", "waiting")
    ends = ("succeeded", "failed", "cancelled", "expired")
    shown = table(
        "queue",
        *(f"{n}>" for n in numbers),
        "oldest ready",
        "newest ready",
        *(f"{n}>" for n in ends),
    )
    for row in found:
        about = "~" if row.estimated else ""
        shown.add_row(
            clean_name(row.name),
            *(f"{about}{getattr(row, number)}" for number in numbers),
            *(
                "" if age is None else in_words(max(0, age))
                for age in (row.oldest_ready_age, row.newest_ready_age)
            ),
            *(str(getattr(row, end)) for end in ends),
        )
    console().print(shown)
    if name is not None and not any(getattr(found[0], n) for n in (*numbers, *ends)):
        click.echo(f"queue {name} has never had jobs; `headway queue list` shows the queues")
    if any(row.estimated for row in found):
        click.echo(
            "~ estimated, because there are too many jobs to count; --json has the time of the estimate"
        )
