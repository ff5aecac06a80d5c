"""`headway check`: which unfinished jobs and schedules the code of an app would not run."""

from __future__ import annotations

import click

from headway.cli.exits import FAILED, OK
from headway.cli.loading import app_for
from headway.cli.options import announce, as_json, place
from headway.cli.output import clean, clean_name, console, counted, print_json, table
from headway.core.check import CheckReport


@click.command
@click.argument("app")
@click.option(
    "-q", "--queue", "queues", multiple=True, metavar="NAME",
    help="Try only jobs of this queue. Repeatable. Use it if other apps have jobs in the same schema.",
)  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(1), default=100_000, show_default=True, metavar="N",
    help="Read at most this number of jobs, the oldest first.",
)  # fmt: skip
@as_json
@place
def check(
    app: str,
    queues: tuple[str, ...],
    limit: int,
    as_json: bool,
    dsn: str | None,
    schema: str | None,
) -> None:
    """Try every unfinished job and schedule against the code of APP, before you deploy it.

    It lists tasks and steps that the code does not have, and inputs that it would refuse. It changes
    nothing. Exit with 1 if there are any.
    """
    hw = app_for(app, dsn=dsn, schema=schema)
    try:
        announce(hw)
        report = hw.check_sync(queues=queues or None, limit=limit)
    finally:
        hw.close_sync()
    if as_json:
        print_json({"ok": report.ok, "report": report})
    else:
        _print(report)
    raise SystemExit(OK if report.ok else FAILED)


def _print(report: CheckReport) -> None:
    if report.findings:
        shown = table("problem", "in", "task", "step", "count>", "details", "for example!")
        for found in report.findings:
            shown.add_row(
                found.problem,
                found.of,
                clean_name(found.task),
                clean_name(found.step),
                str(found.count),
                clean(found.details),
                clean(found.samples[0]),
            )
        console().print(shown)
    tried = f"{counted(report.jobs, 'job')} and {counted(report.schedules, 'schedule')}"
    wrong = sum(found.count for found in report.findings)
    click.echo(f"tried {tried}: {wrong or 'none'} would not run")
    if not report.complete:
        click.echo("there are more: raise --limit to try all of them", err=True)
