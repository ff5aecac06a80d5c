"""The person who runs a command, as other operators see it."""

from __future__ import annotations

import getpass
import socket


def current_actor() -> str:
    """Return "user@host" of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = "someone"
    return f"{user}@{socket.gethostname()}"
