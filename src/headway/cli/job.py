"""`headway job`: the commands about jobs, and the list of them. The others have files of their own."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import click

from headway.app import Headway
from headway.cli.job_change import cancel
from headway.cli.job_edit import edit
from headway.cli.job_enqueue import enqueue
from headway.cli.job_retry import retry
from headway.cli.job_show import explain, show
from headway.cli.options import as_json, database
from headway.cli.output import (
    ago,
    clean_name,
    coloured_state,
    console,
    first_line,
    print_json,
    table,
)
from headway.core.duration import in_words
from headway.core.state import State
from headway.handle import JobStatus
from headway.store import inspect
from headway.store.rows import JobRow

_PAYLOADS = {
    "input",
    "result",
    "headers",
    "progress",
    "expires_at",
    "cancelling",
    "keys",
    "carried",
}
"""Not read for a list, so not shown as if they were empty."""


@click.group
def job() -> None:
    """List, show, explain, retry, edit, cancel and enqueue jobs."""


for command in (show, explain, retry, edit, cancel, enqueue):
    job.add_command(command)


@job.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.label for state in State]),
    help="Only jobs in this state; repeat for more.",
)
@click.option("--task", help="Only jobs of this task.")
@click.option("--step", help="Only jobs at this step of their flow.")
@click.option("--queue", help="Only jobs of this queue.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True)
@click.option("--before", type=click.UUID, metavar="ID", help="Only jobs older than this one.")
@as_json
@database
def list_jobs(
    hw: Headway,
    states: tuple[str, ...],
    task: str | None,
    step: str | None,
    queue: str | None,
    limit: int,
    before: UUID | None,
    as_json: bool,
) -> None:
    """Jobs, live and finished, newest first."""
    wanted = [State.of_label(label) for label in states] or None
    rows, server = hw.session.client.run_all_sync(
        [
            inspect.jobs(
                states=wanted, task=task, step=step, queue=queue, before=before, limit=limit
            ),
            inspect.server(),
        ]
    )
    if as_json:
        print_json([_narrow(row) for row in rows])
        return
    if not rows:
        click.echo("no such jobs")
        return
    shown = table("id!", "task", "step", "queue", "state", "attempt>", "made", "since, or why")
    for row in rows:
        shown.add_row(
            str(row.id),
            clean_name(row.task),
            clean_name(row.step),
            clean_name(row.queue),
            coloured_state(row.state.label),
            f"{row.attempt}/{row.max_attempts}",
            ago(row.created_at, server.now),
            _remark(row, server.now),
        )
    console().print(shown)
    if len(rows) == limit:
        click.echo(f"older ones: --before {rows[-1].id}")


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
