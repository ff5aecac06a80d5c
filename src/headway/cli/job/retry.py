"""`headway job retry`: run jobs again, given by id or selected by how they failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import click

from headway.app import Headway
from headway.cli.failure_groups import FailureGroup, grouped
from headway.cli.job.by_id import change_by_id
from headway.cli.options import as_json, database
from headway.cli.output import ago, clean_name, console, counted, print_json, table
from headway.cli.parsing import duration
from headway.cli.terminal import confirm, with_progress
from headway.core.info import FailedJob, JobStatus

_SHOWN = 10


@click.command
@click.argument("ids", metavar="[ID]...", nargs=-1, type=click.UUID)
@click.option("--from-step", metavar="STEP", help="Go back to this step, with the input it had.")
@click.option("--task", help="Retry failed jobs of this task or flow.")
@click.option("--step", help="Only jobs that failed at this step.")
@click.option(
    "--error", metavar="PATTERN", help="Only jobs whose error matches this regular expression."
)
@click.option(
    "--since",
    type=duration,
    metavar="DURATION",
    help="Only jobs that failed within this long before now.",
)
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="Only the oldest N of these jobs."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@as_json
@database
def retry(
    hw: Headway,
    ids: tuple[UUID, ...],
    from_step: str | None,
    yes: bool,
    as_json: bool,
    **which: Any,
) -> None:
    """Run failed, cancelled or expired jobs again with fresh attempts, or scheduled ones now.

    A flow resumes at the step where it failed. Without an ID, the options select failed jobs, and
    the command shows them before it retries them.
    """
    chosen = any(value is not None for value in which.values())
    if ids and chosen:
        raise click.UsageError("give job ids, or select jobs by options, not both")
    if not ids and not chosen:
        raise click.UsageError(
            "give job ids, or select failed jobs by --task, --step, --error or --since"
        )
    if ids:
        change_by_id(
            hw, ids, as_json, "retried", lambda job: job.retry_sync(from_step), _refusal(from_step)
        )
    else:
        _retry_chosen(hw, which, from_step, yes=yes, as_json=as_json)


def _refusal(from_step: str | None) -> Callable[[JobStatus], str | None]:
    def refusal(status: JobStatus) -> str | None:
        if from_step is not None and status.state in ("failed", "cancelled", "expired"):
            return f"it was never at step {from_step!r}"
        return None

    return refusal


def _retry_chosen(
    hw: Headway, which: dict[str, Any], from_step: str | None, *, yes: bool, as_json: bool
) -> None:
    found = hw.jobs.failed_sync(**which)
    groups = grouped(found)
    answer: dict[str, object] = {"matching": len(found), "retried": 0, "skipped": 0}
    if not as_json:
        _preview(found, groups, hw.server_info_sync().now)
    if found and not yes:
        if as_json:
            print_json({**answer, "groups": groups})
        confirm("retry", "retried", len(found), as_json=as_json)
    ids = [row.id for row in found]
    retried = with_progress(
        lambda tell: hw.jobs.retry_sync(ids, from_step=from_step, on_progress=tell),
        "retried",
        len(ids),
        quiet=as_json,
    )
    skipped = len(found) - retried
    if as_json:
        print_json({**answer, "retried": retried, "skipped": skipped, "groups": groups})
    elif found:
        rest = f"; skipped {counted(skipped, 'job')} that changed meanwhile" if skipped else ""
        click.echo(f"retried {counted(retried, 'job')}{rest}")


def _preview(found: Sequence[FailedJob], groups: Sequence[FailureGroup], now: datetime) -> None:
    if not found:
        click.echo("no failed jobs match")
        return
    oldest, newest = ago(found[0].finished_at, now), ago(found[-1].finished_at, now)
    click.echo(
        f"{counted(len(found), 'failed job')}, the oldest failed {oldest}, the newest {newest}"
    )
    shown = table("jobs>", "task", "step", "error", "first", "last", "examples!")
    for group in groups[:_SHOWN]:
        shown.add_row(
            str(group.count),
            clean_name(group.task),
            clean_name(group.step),
            group.error,
            ago(group.oldest, now),
            ago(group.newest, now),
            "\n".join(group.ids),
        )
    console().print(shown)
    if len(groups) > _SHOWN:
        click.echo(f"... and {counted(len(groups) - _SHOWN, 'more error')}")
