"""`headway queue drain`: pause a queue and wait for its running jobs."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.actor import current_actor
from headway.cli.exits import CommandFailed
from headway.cli.options import as_json, database
from headway.cli.output import counted, print_json
from headway.cli.parsing import duration


@click.command
@click.argument("name")
@click.option("--reason", default="drain", show_default=True, help="Reason to show to others.")
@click.option("--timeout", type=duration, metavar="DURATION", help="Stop waiting after this long.")
@as_json
@database
def drain(hw: Headway, name: str, reason: str, timeout: float | None, as_json: bool) -> None:
    """Pause queue NAME and wait until none of its jobs is running. The queue stays paused."""
    from rich.console import Console

    screen = Console(stderr=True)
    with screen.status(f"queue {name} is paused") as status:
        left = hw.queues.drain_sync(
            name,
            reason=reason,
            actor=current_actor(),
            timeout=timeout,
            on_progress=lambda running: status.update(
                f"waiting for {counted(running, 'running job')} of queue {name}"
            ),
        )
    if as_json:
        print_json({"queue": name, "paused": True, "running": left})
    if left:
        raise CommandFailed(
            f"queue {name} is paused, but {counted(left, 'job')} did not finish in time; "
            f"`headway job list --queue {name} --state running` lists running jobs"
        )
    if not as_json:
        click.echo(
            f"queue {name} is drained and paused; resume it with `headway queue resume {name}`"
        )
