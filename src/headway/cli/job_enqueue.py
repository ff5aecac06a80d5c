"""`headway job enqueue`: make a job by hand, with the app's checks or without the app."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

import click

from headway.app import Headway
from headway.calls import Options
from headway.cli.arguments import read_arguments
from headway.cli.exits import DoesNotHold, refusals_explained
from headway.cli.known import note_unknown
from headway.cli.loading import load_app
from headway.cli.options import announce, as_json, careful, duration, place, plain_app
from headway.cli.output import print_json
from headway.core import codec
from headway.core.duration import optional_seconds
from headway.core.ids import new_id
from headway.core.keys import Key, Policy, Unique
from headway.core.names import check_name
from headway.errors import DatabaseError, JobNotFound
from headway.handle import Job
from headway.store import jobs


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
@click.option("--unique", metavar="KEY", help="Make no second job of this task and key.")
@click.option(
    "--on-taken",
    type=click.Choice(["skip", "replace", "reject"]),
    default="skip",
    show_default=True,
    help="What to do if another job has the unique key.",
)
@click.option("--concurrency-key", metavar="KEY", help="Only so many jobs of this key run at once.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="How many (default: 1).")
@click.option("--ordered", is_flag=True, help="Run those of the key in the order of their making.")
@click.option(
    "--limit-key", metavar="KEY", help="The key under the task's own limit, if that is by key."
)
@click.option(
    "--no-keys", is_flag=True, help="Without --app: leave out keys that the task's code would make."
)
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
    unique: str | None,
    on_taken: Policy,
    concurrency_key: str | None,
    limit: int | None,
    ordered: bool,
    limit_key: str | None,
    no_keys: bool,
    **options: Any,
) -> None:
    """Make a job of TASK with the arguments of a JSON object (`-` reads it from standard input).

    TASK may be a flow, which starts at its first step. Without --app only what workers declared of
    the task is known: a call that does not fit fails when it runs.
    """
    call = read_arguments(arguments)
    options["headers"] = dict(headers) or None
    if unique is not None:
        options["unique"] = Unique(unique, policy=on_taken)
    if concurrency_key is not None:
        options["concurrency_key"] = Key(concurrency_key, limit=limit or 1, ordered=ordered)
    elif limit or ordered:
        raise click.UsageError("--limit and --ordered are about a --concurrency-key; give one")
    if app is not None and (limit_key is not None or no_keys):
        raise click.UsageError(
            "--limit-key and --no-keys are for calls without --app; leave them out"
        )
    hw = plain_app(dsn, schema) if app is None else careful(load_app(app, dsn=dsn, schema=schema))
    taken: str | None = None
    try:
        announce(hw)
        if app is None:
            keys = {"limit_key": limit_key, "no_keys": no_keys}
            job = _unchecked(hw, task, call, Options(**options), keys)
            with suppress(DatabaseError):  # a producer may not read what workers declared
                note_unknown(hw, task)
        else:
            job = hw.get_task(task).using(**options).enqueue_sync(**call)
        if not job.made:
            with suppress(DatabaseError, JobNotFound):
                taken = unique or (job.status_sync().keys or {}).get("unique")
    finally:
        hw.close_sync()
    if as_json:
        print_json({"id": job.id, "task": task, "made": job.made})
    else:
        click.echo(job.id)
    if not job.made:
        key = "a unique key" if taken is None else f"the unique key {taken!r}"
        if on_taken != "replace":
            raise DoesNotHold(
                f"no job was made: that one has {key}; cancel it, or give another key"
            )
        if not as_json:
            click.echo(
                f"no second job was made: that one has {key}, and has this call now", err=True
            )


def _unchecked(
    hw: Headway, task: str, call: dict[str, Any], options: Options, keys: dict[str, Any]
) -> Job[Any]:
    session, job_id = hw.session, new_id()
    check_name(task, "task name")
    encoded = codec.check_size(codec.encode(call), session.max_payload_bytes, "the input")
    unique, key = options.unique, options.concurrency_key
    given: dict[str, Any] = {
        "queue": options.queue,
        "delay": optional_seconds(options.delay),
        "at": options.at,
        "priority": options.priority,
        "ttl": optional_seconds(options.ttl),
        "headers": codec.encode_document(options.headers) if options.headers else None,
        "unique_key": unique.by if isinstance(unique, Unique) else None,
        "on_taken": unique.policy if isinstance(unique, Unique) else "skip",
        "concurrency_key": key.by if isinstance(key, Key) else None,
        "limit": key.limit if isinstance(key, Key) else None,
        "ordered": key.ordered if isinstance(key, Key) else None,
        **keys,
    }
    with refusals_explained():
        there = session.client.run_sync(jobs.enqueue_by_name(job_id, task, encoded, given))
    return Job(session, there, None, made=there == job_id)
