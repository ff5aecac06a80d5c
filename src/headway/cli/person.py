"""Who says something to the fleet, and how it reads to others."""

from __future__ import annotations

import getpass
import socket

from headway.core.duration import in_words


def pause_in_words(by: str | None, reason: str | None, lasting: float | None = None) -> str:
    """ "by ada@host: provider down, for 5m"."""
    words = f"by {by or 'someone'}" + (f": {reason}" if reason else "")
    return words if lasting is None else f"{words}, for {in_words(max(0.0, lasting))}"


def person() -> str:
    """Who is at the keyboard."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = "someone"
    return f"{user}@{socket.gethostname()}"
