"""`headway queue purge`, `move`, `drain` and `metrics`: what is about all jobs of a queue."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import click

from headway.app import Headway
from headway.cli.exits import DoesNotHold, Refused
from headway.cli.options import as_json, changed_database, database, duration
from headway.cli.output import clean_name, coloured_state, console, print_json, table
from headway.cli.person import person
from headway.core.duration import in_words
from headway.queue_changes import Told
from headway.store.bulk import Parked

_SHOWN = 20


@click.command
@click.argument("name")
@click.option("--task", help="Only jobs of this task or flow.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@changed_database
def purge(hw: Headway, name: str, task: str | None, yes: bool, as_json: bool) -> None:
    """Cancel what waits in queue NAME; running jobs go on.

    It is shown before anything is done. What was cancelled is in the archive and can be retried.
    """
    found = hw.queues.parked_sync(name, task=task)
    _change(
        found,
        lambda told: hw.queues.purge_sync(name, task=task, told=told),
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
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@changed_database
def move(hw: Headway, name: str, to: str, task: str | None, yes: bool, as_json: bool) -> None:
    """Have what waits in queue NAME wait in queue TO; running jobs go on where they are.

    It is shown before anything is done. Jobs keep their state, moment, priority and keys.
    """
    found = hw.queues.parked_sync(name, task=task)
    _change(
        found,
        lambda told: hw.queues.move_sync(name, to, task=task, told=told),
        ("move", "moved"),
        about={"queue": name, "to": to, "task": task},
        where=f"in queue {name}, to go to queue {to}",
        yes=yes,
        as_json=as_json,
    )


@click.command
@click.argument("name")
@click.option("--reason", default="drain", show_default=True, help="Why, for whoever wonders.")
@click.option("--timeout", type=duration, metavar="DURATION", help="Wait no longer than this.")
@as_json
@changed_database
def drain(hw: Headway, name: str, reason: str, timeout: float | None, as_json: bool) -> None:
    """Pause queue NAME and wait until none of its jobs runs. It stays paused."""
    from rich.console import Console

    screen = Console(stderr=True)
    with screen.status(f"queue {name} is paused") as status:
        left = hw.queues.drain_sync(
            name,
            reason=reason,
            by=person(),
            timeout=timeout,
            told=lambda running: status.update(f"{_jobs(running)} of queue {name} still running"),
        )
    if as_json:
        print_json({"queue": name, "paused": True, "running": left})
    if left:
        raise DoesNotHold(
            f"{_jobs(left)} of queue {name} still running; it is paused, and "
            f"`headway job list --queue {name} --state running` shows which"
        )
    if not as_json:
        click.echo(f"queue {name} is drained and paused; `headway queue resume {name}` opens it")


@click.command
@click.argument("name", required=False)
@as_json
@database
def metrics(hw: Headway, name: str | None, as_json: bool) -> None:
    """What queue NAME holds and what came of its jobs, or every queue."""
    found = hw.queues.metrics_sync() if name is None else [hw.queues.metrics_sync(name)]
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("no queue has or had jobs")
        return
    numbers = ("ready", "scheduled", "blocked", "running", "waiting")
    ends = ("succeeded", "failed", "cancelled", "expired")
    shown = table(
        "queue", *(f"{n}>" for n in numbers), "oldest", "newest", *(f"{n}>" for n in ends)
    )
    for row in found:
        about = "~" if row.estimated else ""
        shown.add_row(
            clean_name(row.name),
            *(f"{about}{getattr(row, number)}" for number in numbers),
            *(
                "" if age is None else in_words(max(0, age))
                for age in (row.oldest_ready_age, row.newest_ready_age)
            ),
            *(str(getattr(row, end)) for end in ends),
        )
    console().print(shown)
    if name is not None and not any(getattr(found[0], n) for n in (*numbers, *ends)):
        click.echo(f"queue {name} has and had no jobs; `headway queue list` shows those that do")
    if any(row.estimated for row in found):
        click.echo("~ estimated: there are too many jobs to count; --json has the moment")


def _change(
    found: Sequence[Parked],
    change: Callable[[Told], int],
    words: tuple[str, str],
    *,
    about: dict[str, str | None],
    where: str,
    yes: bool,
    as_json: bool,
) -> None:
    """Shows what a change would be about, asks, makes it, and says what became of it."""
    verb, done = words
    total = sum(group.count for group in found)
    answer = {**about, "matching": total, done: 0, "groups": found}
    if not as_json:
        _preview(found, total, where)
    if total and not yes:
        if as_json:
            print_json(answer)
        _ask(verb, done, total, as_json)
    changed = _watched(change, done, total, quiet=as_json) if total else 0
    if as_json:
        print_json({**answer, done: changed})
    elif total:
        click.echo(f"{done} {_jobs(changed)}")


def _preview(found: Sequence[Parked], total: int, where: str) -> None:
    if not found:
        click.echo(f"nothing waits {where}")
        return
    click.echo(f"{_jobs(total)} waiting {where}:")
    shown = table("jobs>", "task", "state")
    for group in sorted(found, key=lambda group: -group.count)[:_SHOWN]:
        shown.add_row(str(group.count), clean_name(group.task), coloured_state(group.state))
    console().print(shown)
    if len(found) > _SHOWN:
        click.echo(f"... and {len(found) - _SHOWN} other tasks and states")


def _ask(verb: str, done: str, total: int, as_json: bool) -> None:
    """Goes on if someone agrees; where there is nobody to ask, it takes --yes."""
    if as_json or not sys.stdin.isatty():
        raise Refused(
            f"nothing was {done}, and nobody is asked: add --yes to {verb} {_jobs(total)}"
        )
    if not click.confirm(f"{verb} {_jobs(total)}?", err=True):
        raise DoesNotHold(f"nothing was {done}")


def _watched(change: Callable[[Told], int], done: str, total: int, *, quiet: bool) -> int:
    from rich.console import Console
    from rich.progress import Progress

    screen = Console(stderr=True)
    watched = screen.is_terminal and not quiet
    with Progress(console=screen, transient=True, disable=not watched) as progress:
        bar = progress.add_task(done, total=total)
        return change(lambda so_far: progress.update(bar, completed=so_far))


def _jobs(count: int) -> str:
    return f"{count} job{'' if count == 1 else 's'}"
