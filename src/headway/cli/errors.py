"""`headway errors`: recent failures, or new ones as they happen."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing, suppress
from datetime import datetime

import click

from headway.app import Headway
from headway.cli.failure_groups import FailureGroup, as_row, grouped
from headway.cli.options import as_json, database
from headway.cli.output import ago, clean_name, console, first_line, print_json_line, table
from headway.cli.parsing import duration
from headway.core.failure import Failure
from headway.engine import loop

_NEWEST = 20


@click.command
@click.option("--task", help="Only failures of this task or flow.")
@click.option(
    "--since", type=duration, metavar="DURATION", help="Only failures within this long before now."
)
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help=f"Show the newest N (default: {_NEWEST}); with --follow, exit after N.",
)
@click.option("--group", is_flag=True, help="Group failures with the same error.")
@click.option("-f", "--follow", is_flag=True, help="Show failures as they happen, until Ctrl-C.")
@as_json
@database
def errors(
    hw: Headway,
    task: str | None,
    since: float | None,
    limit: int | None,
    group: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Show jobs that failed, the newest last. With --json, print one object per line.

    With --follow, show failures from now on, or from --since on. None is missed while the database
    is unreachable.
    """
    if group and follow:
        raise click.UsageError("--group cannot be used with --follow")
    if follow:
        _follow(hw, task, since, limit, as_json)
        return
    found = hw.jobs.failures_sync(task=task, since=since, limit=limit or _NEWEST)
    if not found and not as_json:
        click.echo("no failures")
    elif group:
        _print_groups(grouped(map(as_row, found)), hw.server_info_sync().now, as_json)
    else:
        for failure in found:
            _print(failure, as_json)


def _follow(
    hw: Headway, task: str | None, since: float | None, limit: int | None, as_json: bool
) -> None:
    async def main() -> None:
        seen = 0
        async with hw, aclosing(hw.failures(since)) as failures:
            async for failure in failures:
                if task is not None and failure.task != task:
                    continue
                _print(failure, as_json)
                seen += 1
                if seen == limit:
                    return

    with suppress(KeyboardInterrupt):  # Ctrl-C is the normal end
        loop.run(main())


def _print(failure: Failure, as_json: bool) -> None:
    if as_json:
        print_json_line(failure)
        return
    handler = clean_name(f"{failure.task}/{failure.step}" if failure.step else failure.task)
    error = f"{failure.error.get('type', '')}: {failure.error.get('message', '')}"
    click.echo(
        f"{failure.failed_at.isoformat(timespec='seconds')}  {failure.job_id}  {handler}  "
        f"attempt {failure.attempt}  {click.style(first_line(error, 200), fg='red')}"
    )


def _print_groups(groups: Sequence[FailureGroup], now: datetime, as_json: bool) -> None:
    if as_json:
        for group in groups:
            print_json_line(group)
        return
    shown = table("failures>", "task", "step", "error", "first", "last", "example!")
    for group in groups:
        shown.add_row(
            str(group.count),
            clean_name(group.task),
            clean_name(group.step),
            group.error,
            ago(group.oldest, now),
            ago(group.newest, now),
            group.ids[0],
        )
    console().print(shown)
