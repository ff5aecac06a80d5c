"""`headway worker-list`: the fleet."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.options import as_json, database
from headway.cli.output import console, print_json, table
from headway.core.duration import in_words
from headway.store import inspect
from headway.store.rows import WorkerRow


@click.command("worker-list")
@as_json
@database
def worker_list(hw: Headway, as_json: bool) -> None:
    """The workers of the last hour, alive and gone."""
    found = hw.session.client.run_sync(inspect.workers(hw.session.clock.now()))
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("no worker was here within the last hour; start one: headway worker module:hw")
        return
    shown = table("id>", "worker!", "", "heard", "slots>", "queues", "tasks", "version", "sweeps")
    for row in found:
        shown.add_row(
            str(row.id),
            row.name,
            _how(row),
            f"{in_words(max(0, row.silent_for))} ago",
            str(row.slots),
            ", ".join(row.queues),
            ", ".join(row.tasks),
            row.version,
            "yes" if row.sweeps else "",
            style=None if row.alive else "dim",
        )
    console().print(shown)


def _how(row: WorkerRow) -> str:
    if not row.alive:
        return "gone"
    return "drains" if row.draining else "alive"
