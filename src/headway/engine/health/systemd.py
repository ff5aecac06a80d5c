"""Tells systemd the state of a worker: ready, stopping, alive (sd_notify).

It sends datagrams to the socket in $NOTIFY_SOCKET, or nothing if that is not set. Sending does not block,
and a worker does not fail because systemd does not receive them.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

NAMES = frozenset({"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
"""Variables that systemd sets for a process. They are not meant for its children."""

_BEATS_PER_WATCHDOG = 3


class Systemd:
    """The service manager, as described by the process's environment."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        given = os.environ if environment is None else environment
        path = given.get("NOTIFY_SOCKET", "")
        # "@" stands for the zero byte of an abstract name. Any other first character is invalid.
        self._place = f"\0{path[1:]}" if path.startswith("@") else path
        if not path.startswith(("/", "@")):
            self._place = ""
        self.watchdog = _watchdog(given) if self._place else None
        """Seconds between two `alive` messages, or None if systemd does not expect them."""

    @property
    def expects(self) -> bool:
        """Whether systemd expects messages."""
        return bool(self._place)

    def ready(self, status: str) -> None:
        """Report that the process has started."""
        self._send(f"READY=1\nSTATUS={_line(status)}")

    def stopping(self, status: str) -> None:
        """Report that the process is stopping."""
        self._send(f"STOPPING=1\nSTATUS={_line(status)}")

    def alive(self) -> None:
        """Report that the process is alive. It is due every `watchdog` seconds."""
        self._send("WATCHDOG=1")

    def _send(self, words: str) -> None:
        if not self._place:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
                to.setblocking(False)
                to.sendto(words.encode(), self._place)
        except OSError:
            pass  # systemd is gone or does not read, and the worker goes on


def _watchdog(given: Mapping[str, str]) -> float | None:
    microseconds, process = given.get("WATCHDOG_USEC", ""), given.get("WATCHDOG_PID", "")
    if not microseconds.isdecimal() or int(microseconds) == 0:
        return None
    if process and process != str(os.getpid()):
        return None  # the variables are meant for the parent process
    return int(microseconds) / 1_000_000 / _BEATS_PER_WATCHDOG


def _line(words: str) -> str:
    return " ".join(words.split())
