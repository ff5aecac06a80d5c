"""`headway queue limit` and `headway queue limits`: limits of queues, tasks and keys."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.actor import current_actor
from headway.cli.exits import CommandFailed
from headway.cli.options import as_json, database
from headway.cli.output import clean, clean_name, console, pause_in_words, print_json, table
from headway.cli.unknown_names import note_unknown, note_unknown_queue, refuse_flow
from headway.core.info import Control
from headway.core.limits import in_words as limits_in_words


@click.command
@click.argument("name", required=False)
@click.option("--task", metavar="TASK", help="A task or flow/step instead of a queue.")
@click.option("--keys-of", metavar="TASK", help="Each key of a task with Limit(key=...).")
@click.option("--concurrency", type=click.IntRange(0), metavar="N", help="Jobs that run at once.")
@click.option("--rate", metavar="RATE", help="Starts per period: 10/s, 100/min, 1/10s.")
@click.option(
    "--burst", type=click.IntRange(1), metavar="N", help="Starts at once after idle time."
)
@click.option("--none", "lift", is_flag=True, help="Remove the limit, also one that code declares.")
@click.option("--reset", is_flag=True, help="Go back to the limit that code declares.")
@click.option("--actor", help="Name to show to others (default: user@host).")
@as_json
@database
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
    actor: str | None,
    as_json: bool,
) -> None:
    """Limit how many jobs of queue NAME, a task or each key of a task run and start.

    The limit applies to all workers together.
    """
    given = concurrency is not None or rate is not None or burst is not None
    if given + lift + reset != 1:
        raise click.UsageError("give --concurrency, --rate or both; or --none; or --reset")
    if reset:
        if not hw.controls.reset_sync(queue=name, task=task, keys_of=keys_of):
            raise CommandFailed("no limit to reset; `headway queue limits` lists all limits")
    else:
        note_unknown_queue(hw, name)
        refuse_flow(hw, task)
        hw.controls.limit_sync(
            queue=name, task=task, keys_of=keys_of, concurrency=concurrency, rate=rate, burst=burst,
            actor=actor or current_actor(),
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
    """List every pause and limit of queues, tasks and keys."""
    found = hw.controls.list_sync()
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("no pauses and no limits")
        return
    shown = table("kind", "name", "limit", "set by", "paused")
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


def _limits(row: Control) -> str:
    return limits_in_words(row.concurrency, row.rate, row.burst) or "no limit"
