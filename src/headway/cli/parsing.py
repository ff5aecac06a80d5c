"""Readers of values on the command line: arguments of a job as JSON, times and headers."""

from __future__ import annotations

import re
import sys
from datetime import datetime
from typing import Any

import click

from headway.core import codec
from headway.core.duration import seconds
from headway.errors import ConfigError, InvalidInput


def read_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a job from a JSON object; `-` reads standard input."""
    try:
        value = codec.decode(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        raise InvalidInput(
            f"the arguments are not valid JSON: {error}; quote them for the shell"
        ) from None
    except RecursionError:
        raise InvalidInput("the arguments are nested too deeply; flatten the data") from None
    if not isinstance(value, dict):
        raise InvalidInput("the arguments must be a JSON object, like '{\"user_id\": 1}'")
    return value  # pyright: ignore[reportUnknownVariableType]


def moment(text: str) -> datetime:
    """Return the time of a text like 2030-01-31T08:00:00+01:00."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a time; expected one like 2030-01-31T08:00:00+01:00"
        ) from None
    if read.tzinfo is None:
        raise click.BadParameter(f"{text!r} has no time zone; add Z or an offset like +01:00")
    return read


def moment_or_duration(text: str) -> datetime | float:
    """Return a time, or the seconds of a duration from now."""
    return moment(text) if re.match(r"\d{4}-", text) else duration(text)


def duration(text: str) -> float:
    """Return the seconds of "90s", "10m", "1h30m" or a number."""
    try:
        return seconds(float(text) if text.replace(".", "", 1).isdecimal() else text)
    except ConfigError as error:
        raise click.BadParameter(str(error)) from None


def header(text: str) -> tuple[str, str]:
    """Return name and value of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not a header; expected NAME=VALUE")
    return name, value
