"""`headway worker-list`: the workers of the fleet."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.options import as_json, database
from headway.cli.output import clean_name, console, print_json, table
from headway.core.duration import in_words
from headway.core.info import WorkerInfo


@click.command("worker-list")
@as_json
@database
def worker_list(hw: Headway, as_json: bool) -> None:
    """List the workers that are alive or were alive in the last hour."""
    found = hw.workers.list_sync()
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("no workers in the last hour; start one: headway worker module:hw")
        return
    shown = table(
        "id>",
        "worker!",
        "state",
        "last heartbeat",
        "slots>",
        "queues",
        "tasks",
        "version",
        "leader",
    )
    for row in found:
        shown.add_row(
            str(row.id),
            clean_name(row.name),
            _state(row),
            f"{in_words(max(0, row.silent_for))} ago",
            str(row.slots),
            clean_name(", ".join(row.queues)),
            clean_name(", ".join(row.tasks)),
            clean_name(row.version),
            "yes" if row.leader else "",
            style=None if row.alive else "dim",
        )
    console().print(shown)
    for row in found:
        if row.trouble is not None:
            console().print(f"worker {row.id}: {clean_name(row.trouble)}", markup=False)


def _state(row: WorkerInfo) -> str:
    if not row.alive:
        return "gone"
    if row.trouble is not None:
        return "unhealthy"
    return "draining" if row.draining else "alive"
