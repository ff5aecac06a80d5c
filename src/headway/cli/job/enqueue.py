"""`headway job enqueue`: enqueue a job by hand, checked by the app or without it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import click

from headway.cli.exits import CommandFailed, refusals_explained
from headway.cli.loading import app_for
from headway.cli.options import announce, app_option, as_json, place
from headway.cli.output import print_json
from headway.cli.parsing import duration, header, moment, read_arguments
from headway.cli.unknown_names import note_unknown
from headway.core.keys import Key, Policy, Unique
from headway.errors import DatabaseError, JobNotFound


@click.command
@click.argument("task")
@click.argument("arguments", metavar="[JSON]", default="{}")
@app_option("Check the call against the task of this app.")
@click.option(
    "--delay", type=duration, metavar="DURATION", help="Run no earlier than this long from now."
)
@click.option("--at", type=moment, metavar="TIME", help="Run no earlier than this.")
@click.option("--priority", type=int, help="Higher runs first within the queue.")
@click.option("--queue", help="Queue to use instead of the task's.")
@click.option("--ttl", type=duration, metavar="DURATION", help="Expire the job if it waits longer.")
@click.option("--unique", metavar="KEY", help="Create no second job of this task with this key.")
@click.option(
    "--on-taken",
    type=click.Choice(["skip", "replace", "reject"]),
    default="skip",
    show_default=True,
    help="What to do if another job holds the unique key.",
)
@click.option(
    "--concurrency-key", metavar="KEY", help="Limit how many jobs with this key run at once."
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help="Jobs with the concurrency key that run at once (default: 1).",
)
@click.option("--ordered", is_flag=True, help="Run jobs with the concurrency key in order.")
@click.option(
    "--limit-key", metavar="KEY", help="Key for the task's own limit, if that limit is per key."
)
@click.option(
    "--no-keys",
    is_flag=True,
    help="Without --app: leave out the keys that the task's code would compute.",
)
@click.option(
    "--header",
    "headers",
    type=header,
    multiple=True,
    metavar="NAME=VALUE",
    help="Header of the job. Repeatable.",
)
@as_json
@place
def enqueue(
    task: str,
    arguments: str,
    app: str | None,
    headers: tuple[tuple[str, str], ...],
    as_json: bool,
    dsn: str | None,
    schema: str | None,
    unique: str | None,
    on_taken: Policy,
    concurrency_key: str | None,
    limit: int | None,
    ordered: bool,
    limit_key: str | None,
    no_keys: bool,
    **options: Any,
) -> None:
    """Enqueue a job of TASK with arguments from a JSON object (`-` reads standard input).

    TASK may be a flow, which starts at its first step. Without --app, the arguments are checked
    only when the job runs.
    """
    call = read_arguments(arguments)
    options["headers"] = dict(headers) or None
    if unique is not None:
        options["unique"] = Unique(unique, policy=on_taken)
    if concurrency_key is not None:
        options["concurrency_key"] = Key(concurrency_key, limit=limit or 1, ordered=ordered)
    elif limit or ordered:
        raise click.UsageError("--limit and --ordered need --concurrency-key")
    if app is not None and (limit_key is not None or no_keys):
        raise click.UsageError("--limit-key and --no-keys cannot be used with --app")
    hw = app_for(app, dsn=dsn, schema=schema)
    taken: str | None = None
    try:
        announce(hw)
        if app is None:
            with refusals_explained():
                job = hw.jobs.enqueue_sync(
                    task, call, limit_key=limit_key, no_keys=no_keys, **options
                )
            with suppress(DatabaseError):  # a producer may not read the declared tasks
                note_unknown(hw, task)
        else:
            job = hw.get_task(task).using(**options).enqueue_sync(**call)
        if not job.created:
            with suppress(DatabaseError, JobNotFound):
                taken = unique or (job.status_sync().keys or {}).get("unique")
    finally:
        hw.close_sync()
    if as_json:
        print_json({"id": job.id, "task": task, "created": job.created})
    else:
        click.echo(job.id)
    if not job.created:
        key = "a unique key" if taken is None else f"the unique key {taken!r}"
        if on_taken != "replace":
            raise CommandFailed(
                f"no job was created: job {job.id} holds {key}; cancel it or use another key"
            )
        if not as_json:
            click.echo(f"note: job {job.id} holds {key}; its call was replaced", err=True)
