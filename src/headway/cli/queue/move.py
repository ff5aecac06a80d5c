"""`headway queue purge` and `headway queue move`: change all waiting jobs of a queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from headway.app import Headway
from headway.cli.options import as_json, database
from headway.cli.output import clean_name, coloured_state, console, counted, print_json, table
from headway.cli.terminal import confirm, with_progress
from headway.core.info import WaitingCount
from headway.queues import OnProgress, check_move

_SHOWN = 20


@click.command
@click.argument("name")
@click.option("--task", help="Only jobs of this task or flow.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@as_json
@database
def purge(hw: Headway, name: str, task: str | None, yes: bool, as_json: bool) -> None:
    """Cancel the jobs that wait in queue NAME. Running jobs continue.

    The command shows the jobs before it cancels them. Cancelled jobs can be retried.
    """
    found = hw.queues.waiting_sync(name, task=task)
    _change(
        found,
        lambda tell: hw.queues.purge_sync(name, task=task, on_progress=tell),
        ("purge", "purged"),
        about={"queue": name, "task": task},
        where=f"in queue {name}",
        yes=yes,
        as_json=as_json,
    )


@click.command
@click.argument("name")
@click.argument("to")
@click.option("--task", help="Only jobs of this task or flow.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@as_json
@database
def move(hw: Headway, name: str, to: str, task: str | None, yes: bool, as_json: bool) -> None:
    """Move the jobs that wait in queue NAME to queue TO. Running jobs stay where they are.

    The command shows the jobs before it moves them. They keep their state, due time, priority and
    keys.
    """
    check_move(name, to)
    found = hw.queues.waiting_sync(name, task=task)
    _change(
        found,
        lambda tell: hw.queues.move_sync(name, to, task=task, on_progress=tell),
        ("move", "moved"),
        about={"queue": name, "to": to, "task": task},
        where=f"in queue {name}",
        yes=yes,
        as_json=as_json,
    )


def _change(
    found: Sequence[WaitingCount],
    change: Callable[[OnProgress], int],
    words: tuple[str, str],
    *,
    about: dict[str, str | None],
    where: str,
    yes: bool,
    as_json: bool,
) -> None:
    """Show the jobs that a change affects, ask, make the change and report it."""
    verb, done = words
    total = sum(group.count for group in found)
    answer = {**about, "matching": total, done: 0, "groups": found}
    if not as_json:
        _preview(found, total, where)
    if total and not yes:
        if as_json:
            print_json(answer)
        confirm(verb, done, total, as_json=as_json)
    changed = with_progress(change, done, total, quiet=as_json) if total else 0
    if as_json:
        print_json({**answer, done: changed})
    elif total:
        click.echo(f"{done} {counted(changed, 'job')}")


def _preview(found: Sequence[WaitingCount], total: int, where: str) -> None:
    if not found:
        click.echo(f"no jobs waiting {where}")
        return
    click.echo(f"{counted(total, 'job')} waiting {where}:")
    shown = table("jobs>", "task", "state")
    for group in sorted(found, key=lambda group: -group.count)[:_SHOWN]:
        shown.add_row(str(group.count), clean_name(group.task), coloured_state(group.state))
    console().print(shown)
    if len(found) > _SHOWN:
        click.echo(f"... and {counted(len(found) - _SHOWN, 'more row')}")
