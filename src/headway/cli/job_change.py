"""Changing jobs that are named by their ids: saying what became of each. `headway job cancel`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import click

from headway.app import Headway
from headway.cli.exits import DoesNotHold
from headway.cli.options import as_json, changed_database
from headway.cli.output import clean_name, print_json
from headway.errors import JobNotFound
from headway.handle import Job, JobStatus


@click.command
@click.argument("ids", metavar="ID...", nargs=-1, required=True, type=click.UUID)
@as_json
@changed_database
def cancel(hw: Headway, ids: tuple[UUID, ...], as_json: bool) -> None:
    """Cancel jobs that wait, and have running ones stopped."""
    change(hw, ids, as_json, "cancelled", lambda job: job.cancel_sync(), _nothing_to_cancel)


def change(
    hw: Headway,
    ids: tuple[UUID, ...],
    as_json: bool,
    done: str,
    change: Callable[[Job[Any]], bool],
    otherwise: Callable[[JobStatus], str],
) -> None:
    """Changes each job, says what became of it, and fails if any was not changed."""
    answers: list[dict[str, object]] = []
    refusals: list[str] = []
    for job_id in ids:
        handle = hw.job(job_id)
        try:
            changed, status = change(handle), handle.status_sync()
        except JobNotFound as error:
            answers.append({"id": job_id, done: False, "state": None})
            refusals.append(str(error))
            continue
        answers.append({"id": job_id, done: changed, "state": status.state})
        if not changed:
            refusals.append(f"job {job_id} is {status.state}: {otherwise(status)}")
        elif not as_json:
            click.echo(f"job {job_id} {_became(status, done)}")
    if as_json:
        print_json(answers)
    if refusals:
        raise DoesNotHold("; ".join(refusals))


def _nothing_to_cancel(_: JobStatus) -> str:
    return "nothing to cancel"


def _became(status: JobStatus, done: str) -> str:
    if status.cancelling:
        return f"was asked to stop; it runs on worker {status.worker}"
    at_step = f" at step {clean_name(status.step)}" if status.step else ""
    what = "is" if status.state == done else f"{done}: it is"
    return f"{what} {status.state}{at_step}"
