"""`headway queue pause` and `headway queue resume`: of queues, tasks and keys."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from headway.app import Headway
from headway.cli.actor import current_actor
from headway.cli.exits import CommandFailed
from headway.cli.options import as_json, database
from headway.cli.output import print_json
from headway.cli.parsing import moment_or_duration
from headway.cli.unknown_names import note_unknown, note_unknown_queue
from headway.core.duration import in_words

F = TypeVar("F", bound=Callable[..., Any])


def _pausable(command: F) -> F:
    """Add the argument and options that name a queue, a task or a key."""
    command = click.option("--key", metavar="KEY", help="A concurrency key instead of a queue.")(
        command
    )
    command = click.option(
        "--task", metavar="TASK", help="A task, flow or flow/step instead of a queue."
    )(command)
    return click.argument("name", required=False)(command)


@click.command
@_pausable
@click.option("--reason", help="Reason to show to others.")
@click.option("--actor", help="Name to show to others (default: user@host).")
@click.option(
    "--until",
    type=moment_or_duration,
    metavar="TIME|DURATION",
    help="Resume at this time, or after this long.",
)
@as_json
@database
def pause(
    hw: Headway,
    name: str | None,
    task: str | None,
    key: str | None,
    reason: str | None,
    actor: str | None,
    until: datetime | float | None,
    as_json: bool,
) -> None:
    """Stop all workers from starting jobs of queue NAME, a task or a key. Running jobs continue."""
    actor = actor or current_actor()
    note_unknown_queue(hw, name)
    hw.controls.pause_sync(queue=name, task=task, key=key, reason=reason, actor=actor, until=until)
    kind, what, again = _subject(name, task, key)
    note_unknown(hw, task)
    if as_json:
        lasting = None if isinstance(until, datetime) else until
        ends = until if isinstance(until, datetime) else None
        about = {"paused": True, "actor": actor, "reason": reason, "for": lasting, "until": ends}
        print_json({kind: what, **about})
        return
    ending, earlier = "", ""
    if until is not None:
        ending = f" until {until}" if isinstance(until, datetime) else f" for {in_words(until)}"
        earlier = " earlier"
    resume = f"resume it{earlier} with `headway queue resume {again}`"
    click.echo(f"{kind} {what} is paused{ending}; {resume}")


@click.command
@_pausable
@as_json
@database
def resume(hw: Headway, name: str | None, task: str | None, key: str | None, as_json: bool) -> None:
    """Resume queue NAME, a task or a key."""
    resumed = hw.controls.resume_sync(queue=name, task=task, key=key)
    kind, what, _ = _subject(name, task, key)
    if as_json:
        print_json({kind: what, "paused": False, "resumed": resumed})
    if not resumed:
        raise CommandFailed(
            f"{kind} {what} was not paused; `headway queue limits` lists all pauses"
        )
    if not as_json:
        click.echo(f"{kind} {what} is resumed")


def _subject(queue: str | None, task: str | None, key: str | None) -> tuple[str, str, str]:
    """Return the kind, the name, and the arguments that name it to `resume`."""
    if queue is not None:
        return "queue", queue, shlex.quote(queue)
    if task is not None:
        return "task", task, f"--task {shlex.quote(task)}"
    return "key", str(key), f"--key {shlex.quote(str(key))}"
