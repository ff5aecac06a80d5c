"""`headway job cancel`: cancel jobs by their ids."""

from __future__ import annotations

from uuid import UUID

import click

from headway.app import Headway
from headway.cli.job.by_id import change_by_id
from headway.cli.options import as_json, database


@click.command
@click.argument("ids", metavar="ID...", nargs=-1, required=True, type=click.UUID)
@as_json
@database
def cancel(hw: Headway, ids: tuple[UUID, ...], as_json: bool) -> None:
    """Cancel waiting jobs, and ask running ones to stop."""
    change_by_id(hw, ids, as_json, "cancelled", lambda job: job.cancel_sync())
