"""`headway schedule`: look at schedules, see what will happen, pause, resume and run them."""

from __future__ import annotations

import shlex

import click

from headway.app import Headway
from headway.cli.exits import DoesNotHold
from headway.cli.options import as_json, changed_database, database
from headway.cli.output import ago, clean, clean_name, console, first_line, print_json, table
from headway.cli.person import pause_in_words, person
from headway.cli.schedule_put import put
from headway.cli.upcoming import next_command
from headway.core import codec
from headway.core.clock import wall
from headway.schedule import ScheduleStatus


@click.group
def schedule() -> None:
    """Look at schedules, see what will happen, change them."""


schedule.add_command(next_command)
schedule.add_command(put)


@schedule.command("list")
@as_json
@database
def list_schedules(hw: Headway, as_json: bool) -> None:
    """Every schedule, when it is due next, and when it was last."""
    found = hw.schedules.list_sync()
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo(
            "there are no schedules; declare one with @hw.task(schedule=...), or `headway schedule put`"
        )
        return
    shown = table("schedule!", "task", "when!", "input", "next!", "last", "rules", "paused")
    now = wall()
    for row in found:
        shown.add_row(
            clean_name(row.name),
            clean_name(row.task),
            clean_name(row.spec),
            first_line(codec.encode_document(row.input), 40) if row.input else "",
            "never" if row.next_at is None else f"{row.next_at:%Y-%m-%d %H:%M:%S%z}",
            ago(row.last_at, now),
            _rules(row),
            clean(pause_in_words(row.paused_by, row.pause_reason)) if row.paused else "",
            style="dim" if row.paused or row.next_at is None else None,
        )
    console().print(shown)


@schedule.command
@click.argument("name")
@click.option("--reason", help="Why, for whoever wonders.")
@click.option("--by", help="Who; you, if left out.")
@as_json
@changed_database
def pause(hw: Headway, name: str, reason: str | None, by: str | None, as_json: bool) -> None:
    """Stop schedule NAME until it is resumed; jobs that it made go on."""
    by = by or person()
    hw.schedules.pause_sync(name, reason=reason, by=by)
    if as_json:
        print_json({"schedule": name, "paused": True, "by": by, "reason": reason})
    else:
        click.echo(
            f"schedule {name} is paused; `headway schedule resume {shlex.quote(name)}` lets it go on"
        )


@schedule.command
@click.argument("name")
@as_json
@changed_database
def resume(hw: Headway, name: str, as_json: bool) -> None:
    """Let paused schedule NAME go on from now; what fell into the pause is not made up for."""
    resumed = hw.schedules.resume_sync(name)
    if as_json:
        print_json({"schedule": name, "paused": False, "resumed": resumed})
    if not resumed:
        raise DoesNotHold(
            f"schedule {name} was not paused; `headway schedule list` shows which are"
        )
    if not as_json:
        click.echo(f"schedule {name} goes on")


@schedule.command
@click.argument("name")
@as_json
@changed_database
def run(hw: Headway, name: str, as_json: bool) -> None:
    """Make a job of schedule NAME now, paused or not; when it is due next stays as it is."""
    job = hw.schedules.run_sync(name)
    if as_json:
        print_json({"schedule": name, "id": job.id, "made": job.made})
        return
    click.echo(job.id)
    if not job.made:
        click.echo("nothing was made: that job of the schedule has not ended", err=True)


@schedule.command
@click.argument("name")
@as_json
@changed_database
def remove(hw: Headway, name: str, as_json: bool) -> None:
    """Remove schedule NAME; jobs that it made stay.

    One that code declares is there again when the next worker starts: pause it instead.
    """
    removed = hw.schedules.remove_sync(name)
    if as_json:
        print_json({"schedule": name, "removed": removed})
    if not removed:
        raise DoesNotHold(f"no schedule {name!r}; `headway schedule list` shows which there are")
    if not as_json:
        click.echo(f"schedule {name} is removed")


def _rules(row: ScheduleStatus) -> str:
    """What differs from the defaults."""
    rules = [f"catch up {row.catch_up}"] if row.catch_up != "one" else []
    rules += [f"overlap {row.overlap}"] if row.overlap != "allow" else []
    rules += [f"jitter {row.jitter:g}s"] if row.jitter else []
    rules += [f"ends {row.ends_at:%Y-%m-%d %H:%M%z}"] if row.ends_at else []
    rules += [] if row.declared else ["put"]
    return ", ".join(rules)
