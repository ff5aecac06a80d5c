"""`headway job edit`: give a job that failed, or still waits, another input."""

from __future__ import annotations

import sys
from typing import Any
from uuid import UUID

import click

from headway.cli.arguments import read_arguments
from headway.cli.exits import DoesNotHold, Refused
from headway.cli.loading import load_app
from headway.cli.options import announce, as_json, careful, place, plain_app
from headway.cli.output import clean, print_json
from headway.core import codec
from headway.errors import InvalidInput
from headway.handle import Job, JobStatus


@click.command
@click.argument("job_id", metavar="ID", type=click.UUID)
@click.argument("arguments", metavar="[JSON]", required=False)
@click.option("--app", metavar="MODULE:ATTRIBUTE", help="Check the input by this app's task.")
@click.option("--retry", is_flag=True, help="Retry the job with it.")
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
    """Replace the whole input of a job that does not run, by a JSON object (`-`: standard input).

    Without JSON the present input is opened in $EDITOR. Without --app the new one is not checked
    before the job runs.
    """
    hw = plain_app(dsn, schema) if app is None else careful(load_app(app, dsn=dsn, schema=schema))
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
        raise DoesNotHold(
            f"job {job.id} is {job.status_sync().state}: only the input of a job that waits, or that "
            "ended without success, can be changed"
        )
    return True


def _edit(job: Job[Any], before: JobStatus, *, checked: bool) -> bool:
    """Has someone write it, until it fits or they give up; false if they leave it as it is."""
    if not sys.stdin.isatty():
        raise Refused("there is no terminal to edit on: give the input as JSON, or - to read it")
    text = codec.encode_for_people(before.input) + "\n"
    while (edited := click.edit(text, extension=".json")) is not None:
        try:
            return _store(job, read_arguments(edited), checked=checked)
        except InvalidInput as error:
            click.echo(f"{clean(str(error))}", err=True)
            if not click.confirm("edit it again?", default=True, err=True):
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
        click.echo(f"job {after.id} was left as it is")
        return
    click.echo(f"old: {clean(codec.encode_document(before.input))}")
    click.echo(f"new: {clean(codec.encode_document(after.input))}")
    click.echo(f"job {after.id} is {after.state}")
    if app is None:
        click.echo("not checked: --app module:hw checks an input by the task", err=True)
