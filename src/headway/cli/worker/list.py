"""`headway worker-list`: the fleet."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.options import as_json, database
from headway.cli.output import clean_name, console, print_json, table
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
            clean_name(row.name),
            _how(row),
            f"{in_words(max(0, row.silent_for))} ago",
            str(row.slots),
            clean_name(", ".join(row.queues)),
            clean_name(", ".join(row.tasks)),
            clean_name(row.version),
            "yes" if row.sweeps else "",
            style=None if row.alive else "dim",
        )
    console().print(shown)
    for row in found:
        if row.trouble is not None:
            console().print(f"worker {row.id}: {clean_name(row.trouble)}", markup=False)


def _how(row: WorkerRow) -> str:
    if not row.alive:
        return "gone"
    if row.trouble is not None:
        return "in trouble"
    return "drains" if row.draining else "alive"
