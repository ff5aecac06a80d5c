"""Telling systemd how a worker is: ready, stopping, alive (sd_notify).

A datagram to the socket that $NOTIFY_SOCKET names, and nothing where there is none. Nobody waits for
it, and a worker does not fail because systemd does not hear.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

NAMES = frozenset({"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
"""What systemd says in the environment of a process; none of it is for that process's children."""

_BEATS_PER_WATCHDOG = 3


class Systemd:
    """What the service manager was told to expect, from the environment it gives."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        given = os.environ if environment is None else environment
        path = given.get("NOTIFY_SOCKET", "")
        # "@" stands for the zero byte of an abstract name; others than these two are not for sockets.
        self._place = f"\0{path[1:]}" if path.startswith("@") else path
        if not path.startswith(("/", "@")):
            self._place = ""
        self.watchdog = _watchdog(given) if self._place else None
        """How often to say that all is well, in seconds; none if nobody waits for it."""

    @property
    def expects(self) -> bool:
        """Whether anybody wants to be told."""
        return bool(self._place)

    def ready(self, status: str) -> None:
        """The start is over."""
        self._say(f"READY=1\nSTATUS={_line(status)}")

    def stopping(self, status: str) -> None:
        """The end has begun."""
        self._say(f"STOPPING=1\nSTATUS={_line(status)}")

    def alive(self) -> None:
        """All is well: to be repeated every `watchdog` seconds."""
        self._say("WATCHDOG=1")

    def _say(self, words: str) -> None:
        if not self._place:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
                to.setblocking(False)
                to.sendto(words.encode(), self._place)
        except OSError:
            pass  # it is gone, or does not read: that is no trouble of ours


def _watchdog(given: Mapping[str, str]) -> float | None:
    microseconds, process = given.get("WATCHDOG_USEC", ""), given.get("WATCHDOG_PID", "")
    if not microseconds.isdecimal() or int(microseconds) == 0:
        return None
    if process and process != str(os.getpid()):
        return None  # it is meant for whoever started us
    return int(microseconds) / 1_000_000 / _BEATS_PER_WATCHDOG


def _line(words: str) -> str:
    return " ".join(words.split())
