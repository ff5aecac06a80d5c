"""`headway job enqueue`: make a job by hand, with the app's checks or without the app."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any
from uuid import UUID

import click

from headway.app import Headway
from headway.cli.loading import load_app
from headway.cli.options import as_json, duration, place
from headway.cli.output import print_json
from headway.core import codec
from headway.core.config import DEFAULT_QUEUE, DEFAULT_SCHEMA, check_name
from headway.core.duration import optional_seconds
from headway.core.ids import new_id
from headway.core.retry import Retry
from headway.errors import InvalidInput
from headway.store import jobs
from headway.task import Options


def moment(text: str) -> datetime:
    """Reads a moment like 2030-01-31T08:00:00+01:00."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not like 2030-01-31T08:00:00+01:00") from None
    if read.tzinfo is None:
        raise click.BadParameter(f"{text!r} has no time zone; end it with Z or +01:00")
    return read


def header(text: str) -> tuple[str, str]:
    """Reads NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not like NAME=VALUE")
    return name, value


@click.command
@click.argument("task")
@click.argument("arguments", metavar="[JSON]", default="{}")
@click.option("--app", metavar="MODULE:ATTRIBUTE", help="Check the call by this app's task.")
@click.option("--delay", type=duration, metavar="DURATION", help="Not before so long from now.")
@click.option("--at", type=moment, metavar="MOMENT", help="Not before then.")
@click.option("--priority", type=int, help="Higher goes first, within its queue.")
@click.option("--queue", help="Another queue than the task's.")
@click.option("--ttl", type=duration, metavar="DURATION", help="Expire it if it waits longer.")
@click.option(
    "--header", "headers", type=header, multiple=True, metavar="NAME=VALUE", help="Repeatable."
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
    **options: Any,
) -> None:
    """Make a job of TASK with the arguments of a JSON object (`-` reads it from standard input).

    Without --app nothing is known of the task: a call that does not fit fails when it runs.
    """
    call = _object(sys.stdin.read() if arguments == "-" else arguments)
    options["headers"] = dict(headers) or None
    if app is None:
        hw = Headway(dsn, schema=schema or DEFAULT_SCHEMA, pool_size=1)
    else:
        hw = load_app(app, dsn=dsn, schema=schema)
    try:
        if app is None:
            job_id = _unchecked(hw, task, call, Options(**options))
        else:
            job_id = hw.get_task(task).using(**options).enqueue_sync(**call).id
    finally:
        hw.close_sync()
    if as_json:
        print_json({"id": job_id, "task": task})
    else:
        click.echo(job_id)


def _unchecked(hw: Headway, task: str, call: dict[str, Any], options: Options) -> UUID:
    session, job_id = hw.session, new_id()
    check_name(task, "task name")
    encoded = codec.check_size(codec.encode(call), session.max_payload_bytes, "the input")
    made = jobs.NewJob(
        id=str(job_id),
        queue=options.queue or DEFAULT_QUEUE,
        task=task,
        priority=options.priority or 0,
        max_attempts=Retry().max_attempts,
        input=codec.Raw(encoded),
        at=options.at,
        delay=optional_seconds(options.delay),
        ttl=optional_seconds(options.ttl),
        headers=dict(options.headers) if options.headers else None,
    )
    session.client.run_all_sync(
        [jobs.enqueue(session.target, [made], session.clock.now())],
        on_repeat=[jobs.withdraw([made.id])],
    )
    return job_id


def _object(text: str) -> dict[str, Any]:
    try:
        value = codec.decode(text)
    except ValueError as error:
        raise InvalidInput(
            f"the arguments are not JSON: {error}; quote them for the shell"
        ) from None
    if not isinstance(value, dict):
        raise InvalidInput("the arguments must be a JSON object, like '{\"user_id\": 1}'")
    return value  # pyright: ignore[reportUnknownVariableType]
