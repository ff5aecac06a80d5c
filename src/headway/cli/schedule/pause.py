"""`headway schedule pause` and `headway schedule resume`."""

from __future__ import annotations

import shlex

import click

from headway.app import Headway
from headway.cli.actor import current_actor
from headway.cli.exits import CommandFailed
from headway.cli.options import as_json, database
from headway.cli.output import (
    print_json,
)


@click.command
@click.argument("name")
@click.option("--reason", help="Reason to show to others.")
@click.option("--actor", help="Name to show to others (default: user@host).")
@as_json
@database
def pause(hw: Headway, name: str, reason: str | None, actor: str | None, as_json: bool) -> None:
    """Pause schedule NAME. Jobs that it has enqueued continue."""
    actor = actor or current_actor()
    hw.schedules.pause_sync(name, reason=reason, actor=actor)
    if as_json:
        print_json({"schedule": name, "paused": True, "actor": actor, "reason": reason})
    else:
        click.echo(
            f"schedule {name} is paused; "
            f"resume it with `headway schedule resume {shlex.quote(name)}`"
        )


@click.command
@click.argument("name")
@as_json
@database
def resume(hw: Headway, name: str, as_json: bool) -> None:
    """Resume schedule NAME from now on. Runs missed during the pause are skipped."""
    resumed = hw.schedules.resume_sync(name)
    if as_json:
        print_json({"schedule": name, "paused": False, "resumed": resumed})
    if not resumed:
        raise CommandFailed(f"schedule {name} was not paused; `headway schedule list` shows pauses")
    if not as_json:
        click.echo(f"schedule {name} is resumed")
