"""`headway job list`: jobs, finished or not."""

from __future__ import annotations

from datetime import datetime
from typing import cast
from uuid import UUID

import click

from headway.app import Headway
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
from headway.core.info import JobState, JobSummary
from headway.core.state import State


@click.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.label for state in State]),
    help="Only jobs in this state. Repeatable.",
)
@click.option("--task", help="Only jobs of this task.")
@click.option("--step", help="Only jobs at this step of their flow.")
@click.option("--queue", help="Only jobs in this queue.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Jobs to show."
)
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
    """List jobs, finished or not, the newest first."""
    wanted = cast(tuple[JobState, ...], states) or None
    rows = hw.jobs.list_sync(
        state=wanted, task=task, step=step, queue=queue, before=before, limit=limit
    )
    now = hw.server_info_sync().now
    if as_json:
        print_json(rows)
        return
    if not rows:
        click.echo("no jobs match" if states or task or step or queue or before else "no jobs")
        return
    shown = table("id!", "task", "step", "queue", "state", "attempt>", "created", "details")
    for row in rows:
        shown.add_row(
            str(row.id),
            clean_name(row.task),
            clean_name(row.step),
            clean_name(row.queue),
            coloured_state(row.state),
            f"{row.attempt}/{row.max_attempts}",
            ago(row.created_at, now),
            _remark(row, now),
        )
    console().print(shown)
    if len(rows) == limit:
        click.echo(f"for older jobs, add --before {rows[-1].id}")


def _remark(row: JobSummary, now: datetime) -> str:
    """Return what else matters about a job in its state."""
    match row.state:
        case "scheduled":
            return f"runs {ago(row.run_at, now)}" if row.run_at > now else "due now"
        case "running" if row.started_at is not None:
            return f"running for {in_words(max(0, (now - row.started_at).total_seconds()))}"
        case _ if row.error is not None:
            error = f"{row.error.get('type', '')}: {row.error.get('message', '')}"
            when = "last error" if row.finished_at is None else ago(row.finished_at, now)
            return f"{when}: {first_line(error)}"
        case _:
            return ago(row.finished_at, now)
