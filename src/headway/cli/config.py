"""`headway config`: every setting and its source."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from headway.cli.loading import read_settings
from headway.cli.options import as_json, place
from headway.cli.output import clean, console, print_json, table
from headway.settings.layers import Settings
from headway.settings.origin import shown


@click.command
@click.argument("app", required=False)
@as_json
@place
def config(app: str | None, as_json: bool, dsn: str | None, schema: str | None) -> None:
    """Show every setting with its value and source. Passwords are hidden.

    With APP, given as module:attribute, include the settings of its code. This command does not
    connect to the database.
    """
    settings = read_settings(app, dsn=dsn, schema=schema)
    if as_json:
        print_json(_document(settings))
    else:
        _print(settings)


def _document(settings: Settings) -> dict[str, Any]:
    return {
        "file": settings.file and str(settings.file),
        "env_file": settings.env_file and str(settings.env_file),
        "profile": settings.profile,
        "settings": [
            {
                "key": setting.key,
                "value": _plain(setting.shown),
                "layer": setting.origin.layer,
                "place": setting.origin.place or None,
                "name": setting.origin.name or None,
            }
            for setting in settings.values.values()
        ],
        "notes": settings.notes,
        "ignored": settings.ignored,
    }


def _plain(value: Any) -> Any:
    """Return a value for JSON: a path or timedelta becomes text."""
    return str(value) if isinstance(value, Path | timedelta) else value


def _print(settings: Settings) -> None:
    out = console()
    for what, where in (
        ("file", settings.file or "none"),
        (".env", settings.env_file or "none"),
        ("profile", settings.profile or "none"),
    ):
        out.print(f"{what:8} {clean(str(where))}", style="dim")
    listed = table("setting!", "value", "from")
    for setting in settings.values.values():
        listed.add_row(
            setting.key,
            clean(shown(setting.key, setting.value)),
            clean(str(setting.origin)),
            style="dim" if setting.origin.layer == "default" else None,
        )
    out.print(listed)
    for note in settings.notes:
        out.print(f"note: {clean(note)}")
    for name in settings.ignored:
        out.print(f"note: {clean(name)} is not a Headway setting and is ignored")
