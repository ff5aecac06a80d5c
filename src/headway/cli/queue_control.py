"""`headway queue pause | resume | limit | limits`: what is said of queues, tasks and keys."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from headway.app import Headway
from headway.cli.exits import DoesNotHold
from headway.cli.job_enqueue import moment
from headway.cli.known import note_unknown, note_unknown_queue, refuse_flow
from headway.cli.options import as_json, changed_database, database, duration
from headway.cli.output import clean, clean_name, console, print_json, table
from headway.cli.person import pause_in_words, person
from headway.core.duration import in_words
from headway.core.limits import in_words as limits_in_words
from headway.store.controls import ControlRow

F = TypeVar("F", bound=Callable[..., Any])


def _until(text: str) -> datetime | float:
    """A moment, or so long from now."""
    return moment(text) if re.match(r"\d{4}-", text) else duration(text)


def _pausable(command: F) -> F:
    """What is paused: a queue by name, or a task or key by option."""
    command = click.option("--key", metavar="KEY", help="A concurrency key instead.")(command)
    command = click.option("--task", metavar="TASK", help="A task, flow or flow/step instead.")(
        command
    )
    return click.argument("name", required=False)(command)


@click.command
@_pausable
@click.option("--reason", help="Why, for whoever wonders.")
@click.option("--by", help="Who; you, if left out.")
@click.option(
    "--until",
    type=_until,
    metavar="MOMENT|DURATION",
    help="It opens by itself then, or after so long.",
)
@as_json
@changed_database
def pause(
    hw: Headway,
    name: str | None,
    task: str | None,
    key: str | None,
    reason: str | None,
    by: str | None,
    until: datetime | float | None,
    as_json: bool,
) -> None:
    """Stop claims from queue NAME (or of a task, or under a key) everywhere; running jobs go on."""
    by = by or person()
    note_unknown_queue(hw, name)
    hw.controls.pause_sync(queue=name, task=task, key=key, reason=reason, by=by, until=until)
    kind, what, again = _said_of(name, task, key)
    note_unknown(hw, task)
    if as_json:
        lasting = None if isinstance(until, datetime) else until
        ends = until if isinstance(until, datetime) else None
        about = {"paused": True, "by": by, "reason": reason, "for": lasting, "until": ends}
        print_json({kind: what, **about})
        return
    ending = ""
    if until is not None:
        when = f"at {until}" if isinstance(until, datetime) else f"in {in_words(until)}"
        ending = f" by itself {when}, or"
    click.echo(f"{kind} {what} is paused;{ending} `headway queue resume {again}` opens it")


@click.command
@_pausable
@as_json
@changed_database
def resume(hw: Headway, name: str | None, task: str | None, key: str | None, as_json: bool) -> None:
    """Open paused queue NAME (or a task, or a key)."""
    resumed = hw.controls.resume_sync(queue=name, task=task, key=key)
    kind, what, _ = _said_of(name, task, key)
    if as_json:
        print_json({kind: what, "paused": False, "resumed": resumed})
    if not resumed:
        raise DoesNotHold(f"{kind} {what} was not paused; `headway queue limits` shows what is")
    if not as_json:
        click.echo(f"{kind} {what} is open")


@click.command
@click.argument("name", required=False)
@click.option("--task", metavar="TASK", help="A task or flow/step instead.")
@click.option("--keys-of", metavar="TASK", help="Each key of a task with Limit(key=...) instead.")
@click.option("--concurrency", type=click.IntRange(0), metavar="N", help="Running at once.")
@click.option("--rate", metavar="RATE", help="Starts in a time: 10/s, 100/min, 1/10s.")
@click.option("--burst", type=click.IntRange(1), metavar="N", help="Starts at once after a pause.")
@click.option("--none", "lift", is_flag=True, help="No limit, whatever the code declares.")
@click.option("--reset", is_flag=True, help="Back to what the code declares.")
@click.option("--by", help="Who; you, if left out.")
@as_json
@changed_database
def limit(
    hw: Headway,
    name: str | None,
    task: str | None,
    keys_of: str | None,
    concurrency: int | None,
    rate: str | None,
    burst: int | None,
    lift: bool,
    reset: bool,
    by: str | None,
    as_json: bool,
) -> None:
    """Limit how many of queue NAME (or of a task, or of each of its keys) run and start, fleet-wide."""
    given = concurrency is not None or rate is not None or burst is not None
    if given + lift + reset != 1:
        raise click.UsageError("give --concurrency and --rate as you need, or --none, or --reset")
    if reset:
        if not hw.controls.reset_sync(queue=name, task=task, keys_of=keys_of):
            raise DoesNotHold("nobody had set a limit there; `headway queue limits` shows all")
    else:
        note_unknown_queue(hw, name)
        refuse_flow(hw, task)
        hw.controls.limit_sync(
            queue=name, task=task, keys_of=keys_of, concurrency=concurrency, rate=rate, burst=burst,
            by=by or person(),
        )  # fmt: skip
    note_unknown(hw, task or keys_of)
    kind = "queue" if name is not None else "task" if task is not None else "keys"
    what = name or task or keys_of
    found = [row for row in hw.controls.list_sync() if (row.kind, row.name) == (kind, what)]
    if as_json:
        print_json(found[0] if found else {"kind": kind, "name": what})
        return
    about = f"each key of {what}" if kind == "keys" else f"{kind} {what}"
    click.echo(f"{about}: {_limits(found[0]) if found else 'no limit'}")


@click.command
@as_json
@database
def limits(hw: Headway, as_json: bool) -> None:
    """Every pause and limit of queues, tasks and keys."""
    found = hw.controls.list_sync()
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("nothing is paused, and nothing has a limit")
        return
    shown = table("of", "name", "limit", "set by", "paused")
    for row in found:
        shown.add_row(
            "each key of" if row.kind == "keys" else row.kind,
            clean_name(row.name),
            _limits(row),
            clean(row.changed_by or "someone")
            if row.changed_at
            else "code"
            if row.declared
            else "",
            clean(pause_in_words(row.paused_by, row.pause_reason, row.paused_for))
            if row.paused
            else "",
        )
    console().print(shown)


def _said_of(queue: str | None, task: str | None, key: str | None) -> tuple[str, str, str]:
    """The kind, the name, and how to name it to `resume`."""
    if queue is not None:
        return "queue", queue, shlex.quote(queue)
    if task is not None:
        return "task", task, f"--task {shlex.quote(task)}"
    return "key", str(key), f"--key {shlex.quote(str(key))}"


def _limits(row: ControlRow) -> str:
    return limits_in_words(row.concurrency, row.rate, row.burst) or "no limit"
