"""The arguments of a job as commands are given them: a JSON object, here or on standard input."""

from __future__ import annotations

import sys
from typing import Any

from headway.core import codec
from headway.errors import InvalidInput


def read_arguments(text: str) -> dict[str, Any]:
    """Reads a JSON object; `-` reads it from standard input."""
    try:
        value = codec.decode(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        raise InvalidInput(
            f"the arguments are not JSON: {error}; quote them for the shell"
        ) from None
    if not isinstance(value, dict):
        raise InvalidInput("the arguments must be a JSON object, like '{\"user_id\": 1}'")
    return value  # pyright: ignore[reportUnknownVariableType]
