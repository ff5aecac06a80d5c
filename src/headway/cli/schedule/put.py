"""`headway schedule put`: add or change a schedule, checked by the app or without it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from headway.cli.exits import refusals_explained
from headway.cli.loading import app_for
from headway.cli.options import announce, app_option, as_json, place
from headway.cli.output import print_json
from headway.cli.parsing import duration, moment, read_arguments
from headway.cli.unknown_names import note_unknown


@click.command
@click.argument("name")
@click.argument("task")
@click.argument("spec")
@click.argument("arguments", metavar="[JSON]", default="{}")
@app_option("Check the call against the task of this app.")
@click.option(
    "--catch-up",
    type=click.Choice(["skip", "one", "all"]),
    default="one",
    show_default=True,
    help="What to do about missed runs.",
)
@click.option(
    "--max-catch-up",
    type=click.IntRange(1),
    metavar="N",
    default=100,
    show_default=True,
    help="With --catch-up all: the most missed runs to make up.",
)
@click.option(
    "--overlap",
    type=click.Choice(["allow", "skip", "queue"]),
    default="allow",
    show_default=True,
    help="What to do if the previous job has not finished.",
)
@click.option(
    "--jitter",
    type=duration,
    metavar="DURATION",
    help="Delay each run by a random time up to this.",
)
@click.option(
    "--no-keys",
    is_flag=True,
    help="Without --app: leave out the keys that the task's code would compute.",
)
@click.option("--ends-at", type=moment, metavar="TIME", help="No runs after this time.")
@as_json
@place
def put(
    name: str,
    task: str,
    spec: str,
    arguments: str,
    app: str | None,
    as_json: bool,
    dsn: str | None,
    schema: str | None,
    no_keys: bool,
    **rules: Any,
) -> None:
    """Add or change schedule NAME, which enqueues TASK at the times of SPEC.

    JSON is an object with the arguments (`-` reads standard input). Without --app, the arguments
    are checked only when a job runs.
    """
    call, known = read_arguments(arguments), app is not None
    if known and no_keys:
        raise click.UsageError("--no-keys cannot be used with --app")
    hw = app_for(app, dsn=dsn, schema=schema)
    try:
        announce(hw)
        with refusals_explained():
            hw.schedules.put_sync(
                name, task, spec, input=call, check=known, no_keys=no_keys, **rules
            )
        if not known:
            note_unknown(hw, task)
        coming = hw.schedules.next_sync(name, 1)
    finally:
        hw.close_sync()
    first: datetime | None = coming[0] if coming else None
    if as_json:
        print_json({"schedule": name, "task": task, "spec": spec, "next_at": first})
    else:
        next_run = f"runs next at {first.isoformat(' ')}" if first else "has no next run"
        click.echo(f"schedule {name} {next_run}")
