"""`headway job`: the group of its commands."""

from __future__ import annotations

import click

from headway.cli.job.cancel import cancel
from headway.cli.job.edit import edit
from headway.cli.job.enqueue import enqueue
from headway.cli.job.list import list_jobs
from headway.cli.job.retry import retry
from headway.cli.job.show import explain, show


@click.group
def job() -> None:
    """List, show, explain, retry, edit, cancel and enqueue jobs."""


for command in (list_jobs, show, explain, retry, edit, cancel, enqueue):
    job.add_command(command)
