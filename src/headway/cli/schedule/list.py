"""`headway schedule list`: every schedule with its next and last run."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.options import as_json, database
from headway.cli.output import (
    ago,
    clean,
    clean_name,
    console,
    first_line,
    pause_in_words,
    print_json,
    table,
)
from headway.core import codec
from headway.core.clock import wall
from headway.core.info import ScheduleStatus


@click.command("list")
@as_json
@database
def list_schedules(hw: Headway, as_json: bool) -> None:
    """List every schedule with its next and last run."""
    found = hw.schedules.list_sync()
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo(
            "no schedules; declare one with @hw.task(schedule=...) or add one with `headway schedule put`"
        )
        return
    shown = table("schedule!", "task", "when!", "input", "next!", "last", "options", "paused")
    now = wall()
    for row in found:
        shown.add_row(
            clean_name(row.name),
            clean_name(row.task),
            clean_name(row.spec),
            first_line(codec.encode_document(row.input), 40) if row.input else "",
            "never" if row.next_at is None else f"{row.next_at:%Y-%m-%d %H:%M:%S%z}",
            ago(row.last_at, now),
            _options(row),
            clean(pause_in_words(row.paused_by, row.pause_reason)) if row.paused else "",
            style="dim" if row.paused or row.next_at is None else None,
        )
    console().print(shown)


def _options(row: ScheduleStatus) -> str:
    """Return the options that differ from the defaults."""
    rules = [f"catch up {row.catch_up}"] if row.catch_up != "one" else []
    rules += [f"overlap {row.overlap}"] if row.overlap != "allow" else []
    rules += [f"jitter {row.jitter:g}s"] if row.jitter else []
    rules += [f"ends {row.ends_at:%Y-%m-%d %H:%M%z}"] if row.ends_at else []
    rules += [] if row.declared else ["not in code"]
    return ", ".join(rules)
