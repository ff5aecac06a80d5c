"""`headway schedule`: the group of its commands."""

from __future__ import annotations

import click

from headway.cli.schedule.list import list_schedules
from headway.cli.schedule.next import next_command
from headway.cli.schedule.pause import pause, resume
from headway.cli.schedule.put import put
from headway.cli.schedule.run import remove, run


@click.group
def schedule() -> None:
    """List, preview and change schedules."""


schedule.add_command(next_command)
schedule.add_command(put)


for command in (list_schedules, next_command, put, pause, resume, run, remove):
    schedule.add_command(command)
