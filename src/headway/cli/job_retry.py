"""`headway job retry`: try again jobs named by their ids, or all that failed in one way."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import click

from headway.app import Headway
from headway.cli.exits import DoesNotHold, Refused
from headway.cli.failed import Group, grouped
from headway.cli.job_change import change
from headway.cli.options import as_json, changed_database, duration
from headway.cli.output import ago, clean_name, console, print_json, table
from headway.failures import Which, bad_pattern_explained, find, portions
from headway.handle import JobStatus
from headway.store import inspect, jobs
from headway.store.rows import FailedRow

_SHOWN = 10


@click.command
@click.argument("ids", metavar="[ID]...", nargs=-1, type=click.UUID)
@click.option("--from-step", metavar="STEP", help="Go back to this step, with the input it had.")
@click.option("--task", help="All failed jobs of this task or flow.")
@click.option("--step", help="... that failed at this step.")
@click.option(
    "--error", metavar="PATTERN", help="... whose error contains this regular expression."
)
@click.option("--since", type=duration, metavar="DURATION", help="... that failed within the last.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="The oldest so many of them.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@changed_database
def retry(
    hw: Headway,
    ids: tuple[UUID, ...],
    from_step: str | None,
    yes: bool,
    as_json: bool,
    **which: Any,
) -> None:
    """Run failed, cancelled or expired jobs again with fresh attempts, or scheduled ones now.

    A flow resumes at the step where it failed. Without an ID the options say which of the failed
    jobs are meant; they are shown before anything is done.
    """
    chosen = any(value is not None for value in which.values())
    if ids and chosen:
        raise click.UsageError("name jobs by their ids, or choose them by options, not both")
    if not ids and not chosen:
        raise click.UsageError("name jobs by their ids, or choose some: --task, --error, --since")
    if ids:
        again = _again(from_step)
        change(hw, ids, as_json, "retried", lambda job: job.retry_sync(from_step), again)
    else:
        _retry_chosen(hw, Which(**which), from_step, yes=yes, as_json=as_json)


def _again(from_step: str | None) -> Callable[[JobStatus], str]:
    def refusal(status: JobStatus) -> str:
        if from_step is not None and status.state in ("failed", "cancelled", "expired"):
            return f"it has never been at step {from_step!r}"
        return "nothing to retry"

    return refusal


def _retry_chosen(
    hw: Headway, which: Which, from_step: str | None, *, yes: bool, as_json: bool
) -> None:
    client = hw.session.client
    with bad_pattern_explained(which.error):
        found = client.play_sync(find(hw.session, which))
    groups = grouped(found)
    answer: dict[str, object] = {"matching": len(found), "retried": 0, "skipped": 0}
    if not as_json:
        _preview(found, groups, client.run_sync(inspect.server()).now)
    if found and not yes:
        if as_json:
            print_json({**answer, "groups": groups})
        _ask(len(found), as_json)
    retried = _retry(hw, [row.id for row in found], from_step, quiet=as_json)
    skipped = len(found) - retried
    if as_json:
        print_json({**answer, "retried": retried, "skipped": skipped, "groups": groups})
    elif found:
        rest = f"; skipped {_jobs(skipped)} that had nothing to repeat any more" if skipped else ""
        click.echo(f"retried {_jobs(retried)}{rest}")


def _preview(found: Sequence[FailedRow], groups: Sequence[Group], now: datetime) -> None:
    if not found:
        click.echo("no failed job is like that")
        return
    oldest, newest = ago(found[0].finished_at, now), ago(found[-1].finished_at, now)
    click.echo(f"{_jobs(len(found))} failed: the first {oldest}, the last {newest}")
    shown = table("jobs>", "task", "step", "error", "first", "last", "for example!")
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
        click.echo(f"... and {len(groups) - _SHOWN} other errors")


def _ask(count: int, as_json: bool) -> None:
    """Goes on if someone agrees; where there is nobody to ask, it takes --yes."""
    if as_json or not sys.stdin.isatty():
        raise Refused(
            f"nothing was retried, and nobody is asked: add --yes to retry {_jobs(count)}"
        )
    if not click.confirm(f"retry {_jobs(count)}?", err=True):
        raise DoesNotHold("nothing was retried")


def _retry(hw: Headway, ids: Sequence[str], from_step: str | None, *, quiet: bool) -> int:
    from rich.console import Console
    from rich.progress import Progress

    screen, retried = Console(stderr=True), 0
    watched = screen.is_terminal and not quiet
    with Progress(console=screen, transient=True, disable=not watched) as progress:
        bar = progress.add_task("retrying", total=len(ids))
        for portion in portions(ids):
            retried += len(hw.session.client.run_sync(jobs.retry(portion, from_step)))
            progress.advance(bar, len(portion))
    return retried


def _jobs(count: int) -> str:
    return f"{count} job{'' if count == 1 else 's'}"
