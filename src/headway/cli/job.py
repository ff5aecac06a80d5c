"""`headway job`: list, retry and cancel jobs. Showing and enqueuing one have files of their own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import click

from headway.app import Headway
from headway.cli.exits import DoesNotHold
from headway.cli.job_enqueue import enqueue
from headway.cli.job_show import show
from headway.cli.options import as_json, database
from headway.cli.output import ago, coloured_state, console, first_line, print_json, table
from headway.core.duration import in_words
from headway.core.state import State
from headway.errors import JobNotFound
from headway.handle import Job, JobStatus
from headway.store import inspect
from headway.store.rows import JobRow

_PAYLOADS = {"input", "result", "headers", "progress", "expires_at", "cancelling"}
"""Not read for a list, so not shown as if they were empty."""


@click.group
def job() -> None:
    """List, show, retry, cancel and enqueue jobs."""


job.add_command(show)
job.add_command(enqueue)


@job.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.label for state in State]),
    help="Only jobs in this state; repeat for more.",
)
@click.option("--task", help="Only jobs of this task.")
@click.option("--queue", help="Only jobs of this queue.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True)
@click.option("--before", type=click.UUID, metavar="ID", help="Only jobs older than this one.")
@as_json
@database
def list_jobs(
    hw: Headway,
    states: tuple[str, ...],
    task: str | None,
    queue: str | None,
    limit: int,
    before: UUID | None,
    as_json: bool,
) -> None:
    """Jobs, live and finished, newest first."""
    wanted = [State.of_label(label) for label in states] or None
    rows, server = hw.session.client.run_all_sync(
        [
            inspect.jobs(states=wanted, task=task, queue=queue, before=before, limit=limit),
            inspect.server(),
        ]
    )
    if as_json:
        print_json([_narrow(row) for row in rows])
        return
    if not rows:
        click.echo("no such jobs")
        return
    shown = table("id!", "task", "queue", "state", "attempt>", "made", "")
    for row in rows:
        shown.add_row(
            str(row.id),
            row.task,
            row.queue,
            coloured_state(row.state.label),
            f"{row.attempt}/{row.max_attempts}",
            ago(row.created_at, server.now),
            _remark(row, server.now),
        )
    console().print(shown)
    if len(rows) == limit:
        click.echo(f"older ones: --before {rows[-1].id}")


@job.command
@click.argument("ids", metavar="ID...", nargs=-1, required=True, type=click.UUID)
@as_json
@database
def retry(hw: Headway, ids: tuple[UUID, ...], as_json: bool) -> None:
    """Run failed, cancelled or expired jobs again with fresh attempts, or scheduled ones now."""
    _change(hw, ids, as_json, "retried", lambda job: job.retry_sync(), "nothing to retry")


@job.command
@click.argument("ids", metavar="ID...", nargs=-1, required=True, type=click.UUID)
@as_json
@database
def cancel(hw: Headway, ids: tuple[UUID, ...], as_json: bool) -> None:
    """Cancel jobs that wait, and have running ones stopped."""
    _change(hw, ids, as_json, "cancelled", lambda job: job.cancel_sync(), "nothing to cancel")


def _change(
    hw: Headway,
    ids: tuple[UUID, ...],
    as_json: bool,
    done: str,
    change: Callable[[Job[Any]], bool],
    otherwise: str,
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
            refusals.append(f"job {job_id} is {status.state}: {otherwise}")
        elif not as_json:
            click.echo(f"job {job_id} {_became(status, done)}")
    if as_json:
        print_json(answers)
    if refusals:
        raise DoesNotHold("; ".join(refusals))


def _became(status: JobStatus, done: str) -> str:
    if status.cancelling:
        return f"was asked to stop; it runs on worker {status.worker}"
    return f"{done}: it is {status.state}"


def _narrow(row: JobRow) -> dict[str, object]:
    status = JobStatus.of(row)
    return {name: getattr(status, name) for name in status.__slots__ if name not in _PAYLOADS}


def _remark(row: JobRow, now: datetime) -> str:
    """What else matters of a job in this state."""
    match row.state:
        case State.SCHEDULED:
            return f"runs {ago(row.run_at, now)}" if row.run_at > now else "due"
        case State.RUNNING if row.started_at is not None:
            return f"for {in_words(max(0, (now - row.started_at).total_seconds()))}"
        case _ if row.error is not None:
            error = f"{row.error.get('type', '')}: {row.error.get('message', '')}"
            return f"{ago(row.finished_at, now)}, {first_line(error)}"
        case _:
            return ago(row.finished_at, now)
