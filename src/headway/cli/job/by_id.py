"""Changes of jobs given by their ids, with a report on each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import click

from headway.app import Headway
from headway.cli.exits import CommandFailed
from headway.cli.output import clean_name, print_json
from headway.core.info import JobStatus
from headway.errors import JobNotFound
from headway.job import Job


def change_by_id(
    hw: Headway,
    ids: tuple[UUID, ...],
    as_json: bool,
    done: str,
    change: Callable[[Job[Any]], bool],
    refusal: Callable[[JobStatus], str | None] = lambda _: None,
) -> None:
    """Change each job and report it. Raise CommandFailed if one or more were not changed.

    `refusal` may return a better reason than the state of the job.
    """
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
            reason = refusal(status) or f"its state is {status.state}"
            refusals.append(f"job {job_id} was not {done}: {reason}")
        elif not as_json:
            click.echo(_report(status, done))
    if as_json:
        print_json(answers)
    if refusals:
        raise CommandFailed("; ".join(refusals))


def _report(status: JobStatus, done: str) -> str:
    if status.cancelling:
        return f"asked job {status.id} to stop; it is running on worker {status.worker}"
    if status.state == done:
        return f"{done} job {status.id}"
    at_step = f" at step {clean_name(status.step)}" if status.step else ""
    return f"{done} job {status.id}: it is now {status.state}{at_step}"
