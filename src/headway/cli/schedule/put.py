"""`headway schedule put`: make a schedule by hand, with the app's checks or without the app."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from headway.app import Headway
from headway.cli.arguments import read_arguments
from headway.cli.exits import refusals_explained
from headway.cli.job_enqueue import moment
from headway.cli.known import note_unknown
from headway.cli.loading import load_app
from headway.cli.options import announce, as_json, careful, duration, place, plain_app
from headway.cli.output import print_json
from headway.core import codec
from headway.core.names import check_name
from headway.core.schedule import Schedule
from headway.declared import put_of, queue_key
from headway.errors import ConfigError
from headway.store import schedules


@click.command
@click.argument("name")
@click.argument("task")
@click.argument("spec")
@click.argument("arguments", metavar="[JSON]", default="{}")
@click.option("--app", metavar="MODULE:ATTRIBUTE", help="Check the call by this app's task.")
@click.option(
    "--catch-up",
    type=click.Choice(["skip", "one", "all"]),
    default="one",
    show_default=True,
    help="What becomes of occurrences that were missed.",
)
@click.option("--most", type=click.IntRange(1), default=100, help="Of --catch-up all: how many.")
@click.option(
    "--overlap",
    type=click.Choice(["allow", "skip", "queue"]),
    default="allow",
    show_default=True,
    help="What to do while the job before has not ended.",
)
@click.option("--jitter", type=duration, metavar="DURATION", help="Spread jobs over so long.")
@click.option(
    "--no-keys", is_flag=True, help="Without --app: leave out keys that the task's code would make."
)
@click.option("--ends", type=moment, metavar="MOMENT", help="No occurrence after then.")
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
    """Make schedule NAME, or change it: jobs of TASK whenever SPEC says, with arguments as JSON.

    Without --app only what workers declared of the task is known: a call that does not fit fails when
    it runs.
    """
    call = read_arguments(arguments)
    hw = plain_app(dsn, schema) if app is None else careful(load_app(app, dsn=dsn, schema=schema))
    try:
        announce(hw)
        if app is None:
            _unchecked(hw, task, Schedule(spec, name, call, **rules), no_keys)
            note_unknown(hw, task)
        else:
            hw.schedules.put_sync(name, task, spec, input=call, **rules)
        coming = hw.schedules.next_sync(name, 1)
    finally:
        hw.close_sync()
    first: datetime | None = coming[0] if coming else None
    if as_json:
        print_json({"schedule": name, "task": task, "spec": spec, "next_at": first})
    else:
        click.echo(f"schedule {name} is due next at {first.isoformat(' ') if first else 'no time'}")


def _unchecked(hw: Headway, task: str, schedule: Schedule, no_keys: bool) -> None:
    session, name = hw.session, schedule.name or ""
    check_name(task, "task name")
    codec.check_size(codec.encode(schedule.input), session.max_payload_bytes, "the input")
    call: dict[str, Any] = {"task": task, "input": schedule.input, "no_keys": no_keys}
    if schedule.overlap == "skip":
        call["unique_key"] = name
    if schedule.overlap == "queue":
        call |= {"concurrency_key": queue_key(name), "ordered": True}
    made = put_of(name, schedule, task, call=call)
    owner, now = hw.settings.app.name or "", session.clock.now()
    with refusals_explained():
        answer = session.client.run_sync(
            schedules.put(session.target, [made], owner=owner, declared=False, now=now)
        )
    if not answer:
        over = f"{schedule.spec!r} has passed" + (
            f", or ends at {schedule.ends}" if schedule.ends else ""
        )
        raise ConfigError(f"schedule {name!r} would never fire: {over}; give it a time to come")
