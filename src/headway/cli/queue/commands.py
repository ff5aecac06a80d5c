"""`headway queue`: the group of its commands."""

from __future__ import annotations

import click

from headway.cli.queue.drain import drain
from headway.cli.queue.limit import limit, limits
from headway.cli.queue.list import list_queues
from headway.cli.queue.metrics import metrics
from headway.cli.queue.move import move, purge
from headway.cli.queue.pause import pause, resume


@click.group
def queue() -> None:
    """List, pause, limit, purge, move and drain queues."""


for command in (list_queues, pause, resume, limit, limits, metrics, purge, move, drain):
    queue.add_command(command)
