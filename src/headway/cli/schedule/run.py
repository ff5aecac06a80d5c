"""`headway schedule run` and `headway schedule remove`."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.exits import CommandFailed
from headway.cli.options import as_json, database
from headway.cli.output import (
    print_json,
)


@click.command
@click.argument("name")
@as_json
@database
def run(hw: Headway, name: str, as_json: bool) -> None:
    """Enqueue a job of schedule NAME now, even if it is paused. Its next run stays the same."""
    job = hw.schedules.run_sync(name)
    if as_json:
        print_json({"schedule": name, "id": job.id, "created": job.created})
        return
    click.echo(job.id)
    if not job.created:
        click.echo(
            f"note: no job was enqueued: job {job.id} of the schedule has not finished", err=True
        )


@click.command
@click.argument("name")
@as_json
@database
def remove(hw: Headway, name: str, as_json: bool) -> None:
    """Remove schedule NAME. Jobs that it has enqueued stay.

    A schedule that code declares returns when the next worker starts: pause it instead.
    """
    removed = hw.schedules.remove_sync(name)
    if as_json:
        print_json({"schedule": name, "removed": removed})
    if not removed:
        raise CommandFailed(f"no schedule {name!r}; `headway schedule list` shows all")
    if not as_json:
        click.echo(f"schedule {name} is removed")
