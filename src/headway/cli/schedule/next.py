"""`headway schedule next`: preview of runs, with notes where clocks change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import click

from headway.app import Headway
from headway.cli.options import announce, as_json, unopened_database
from headway.cli.output import clean, console, pause_in_words, print_json, table
from headway.core import cron
from headway.core import zones as clocks
from headway.core.duration import in_words
from headway.core.info import ScheduleStatus
from headway.errors import ConfigError, HeadwayError, ScheduleNotFound
from headway.schedules import preview


@dataclass(frozen=True, slots=True)
class Coming:
    """One run of a schedule, with a note about it."""

    at: datetime
    utc: datetime
    note: str | None


@click.command("next")
@click.argument("name_or_spec")
@click.option(
    "-n",
    "count",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    help="Runs to show.",
)
@as_json
@unopened_database
def next_command(hw: Headway, name_or_spec: str, count: int, as_json: bool) -> None:
    """Show the next runs of a schedule, by its name or by a spec like '0 8 * * *[Europe/Berlin]'.

    A spec needs no database.
    """
    status = None
    try:
        spec = cron.parse(name_or_spec)
        found = preview(name_or_spec, count=count)
    except ConfigError as error:
        status = _named(hw, name_or_spec, error)
        spec = cron.parse(status.spec)
        found = hw.schedules.next_sync(name_or_spec, count)
    coming = noted(spec, found)
    if as_json:
        print_json(coming)
        return
    if status is not None and status.paused:
        about = clean(pause_in_words(status.paused_by, status.pause_reason))
        click.echo(
            f"note: the schedule is paused {about}; it does not run until it is resumed", err=True
        )
    if not coming:
        click.echo("no more runs")
        return
    shown = table("day", f"{spec.zone.key}!", "UTC!", "note")
    for one in coming:
        shown.add_row(
            f"{one.at:%a}", one.at.isoformat(" "), f"{one.utc:%Y-%m-%d %H:%M:%SZ}", one.note
        )
    console().print(shown)


def noted(spec: cron.Spec, found: Sequence[datetime]) -> list[Coming]:
    """Return the runs, with notes where clocks change."""
    coming: list[Coming] = []
    for place, moment in enumerate(found):
        before = found[place - 1] if place else None
        coming.append(
            Coming(moment, moment.astimezone(UTC), "; ".join(_notes(spec, before, moment)) or None)
        )
    return coming


def _notes(spec: cron.Spec, before: datetime | None, moment: datetime) -> list[str]:
    notes: list[str] = []
    change = _offset(moment) - _offset(before or moment)
    if change:
        way = "forward" if change > timedelta(0) else "back"
        notes.append(f"clocks went {way} by {in_words(abs(change).total_seconds())}")
    if spec.moved(moment):
        notes.append("replaces a time that does not exist on this day")
    if clocks.is_twice(moment, spec.zone):
        notes.append(f"{'second' if moment.fold else 'first'} of two {moment:%H:%M}")
    return notes


def _offset(moment: datetime) -> timedelta:
    return moment.utcoffset() or timedelta(0)


def _named(hw: Headway, name: str, no_spec: ConfigError) -> ScheduleStatus:
    """Return the schedule of this name. Raise `no_spec` if it is not a name but looks like a spec."""
    looks_like_a_spec = name.startswith("@") or "[" in name or len(name.split()) >= 5
    try:
        announce(hw)
        status = hw.schedules.get_sync(name)
    except HeadwayError:
        if looks_like_a_spec:
            raise no_spec from None
        raise
    if status is None:
        raise no_spec if looks_like_a_spec else ScheduleNotFound(name)
    return status
