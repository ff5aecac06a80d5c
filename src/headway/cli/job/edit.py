"""`headway job edit`: replace the input of a job that is waiting or has failed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import click

from headway.cli import terminal
from headway.cli.exits import CommandFailed, CommandRefused
from headway.cli.loading import app_for
from headway.cli.options import announce, app_option, as_json, place
from headway.cli.output import clean, print_json
from headway.cli.parsing import read_arguments
from headway.core import codec
from headway.core.info import JobStatus
from headway.errors import InvalidInput
from headway.job import Job


@click.command
@click.argument("job_id", metavar="ID", type=click.UUID)
@click.argument("arguments", metavar="[JSON]", required=False)
@app_option("Check the input against the task of this app.")
@click.option("--retry", is_flag=True, help="Retry the job with the new input.")
@as_json
@place
def edit(
    job_id: UUID,
    arguments: str | None,
    app: str | None,
    retry: bool,
    as_json: bool,
    dsn: str | None,
    schema: str | None,
) -> None:
    """Replace the input of a job that is not running by a JSON object (`-` reads standard input).

    Without JSON, the current input is opened in $EDITOR. Without --app, the new input is checked
    only when the job runs.
    """
    hw = app_for(app, dsn=dsn, schema=schema)
    try:
        announce(hw)
        job = hw.job(job_id)
        before = job.status_sync()
        if arguments is not None:
            changed = _store(job, read_arguments(arguments), checked=app is not None)
        else:
            changed = _edit(job, before, checked=app is not None)
        if changed and retry:
            job.retry_sync()
        _say(before, job.status_sync(), changed, app, as_json)
    finally:
        hw.close_sync()


def _store(job: Job[Any], arguments: dict[str, Any], *, checked: bool) -> bool:
    if not job.edit_sync(arguments, check=checked):
        raise CommandFailed(
            f"job {job.id} was not edited: its state is {job.status_sync().state}; only waiting, failed, "
            "cancelled and expired jobs can be edited"
        )
    return True


def _edit(job: Job[Any], before: JobStatus, *, checked: bool) -> bool:
    """Open an editor until the input is valid. Return false if it was left unchanged."""
    if not terminal.at_terminal():
        raise CommandRefused(
            "no terminal to edit on; give the input as JSON, or - to read standard input"
        )
    text = codec.encode_for_people(before.input) + "\n"
    while (edited := click.edit(text, extension=".json")) is not None:
        try:
            return _store(job, read_arguments(edited), checked=checked)
        except InvalidInput as error:
            click.echo(f"{clean(str(error))}", err=True)
            if not click.confirm("Edit again?", default=True, err=True):
                raise
            text = edited
    return False


def _say(
    before: JobStatus, after: JobStatus, changed: bool, app: str | None, as_json: bool
) -> None:
    if as_json:
        facts = {"id": after.id, "edited": changed, "checked": app is not None}
        print_json({**facts, "old": before.input, "new": after.input, "state": after.state})
        return
    if not changed:
        click.echo(f"job {after.id} is unchanged")
        return
    click.echo(f"old: {clean(codec.encode_document(before.input))}")
    click.echo(f"new: {clean(codec.encode_document(after.input))}")
    click.echo(f"job {after.id} is {after.state}")
    if app is None:
        click.echo(
            "note: the input was not checked; --app module:hw checks it against the task", err=True
        )
