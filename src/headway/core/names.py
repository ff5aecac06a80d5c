"""Names of queues, tasks, steps and keys. Pure.

The SQL function `is_name` (0001_initial.sql) has the same rule.
"""

from __future__ import annotations

import re

from headway.errors import ConfigError

LONGEST_NAME = 200
LONGEST_FULL_KEY = 602
"""A key of a task's limit is stored as task/step/key."""

# Controls, line breaks, invisible characters and those that change the direction of text. A terminal does
# not show them, and some of them change its display. Lone surrogates are not text.
_HIDDEN = (
    r"\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069"
    r"\ufeff\ufff9-\ufffb\ud800-\udfff"
)
_PRINTABLE = re.compile(f"[^{_HIDDEN}]+")


def check_name(value: str, what: str, longest: int = LONGEST_NAME) -> str:
    """Return the name of a queue, task or step. Raise ConfigError if it is invalid."""
    if not is_printable(value, longest) or value != value.strip():
        raise ConfigError(
            f"{what} {_shown(value)} must be 1 to {longest} printable characters without spaces at "
            "its ends"
        )
    return value


def is_printable(value: object, longest: int) -> bool:
    """Return whether a value is text that people can read, as keys and names must be."""
    return isinstance(value, str) and len(value) <= longest and bool(_PRINTABLE.fullmatch(value))


def _shown(value: object) -> str:
    words = repr(value)
    return words if len(words) <= 220 else f"{words[:217]}..."
