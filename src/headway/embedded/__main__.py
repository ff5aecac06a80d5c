"""`python -m headway.embedded [--root DIR]`: keep the server running and print its address.

It ends at SIGINT or SIGTERM. If standard input is a pipe, it also ends when the other side closes it, so
it ends with its parent process.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import socket
import stat
import sys
from types import FrameType

from headway.embedded import start
from headway.errors import EmbeddedUnavailable


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m headway.embedded", description=__doc__)
    parser.add_argument("--root", default=".headway", metavar="DIR")
    options = parser.parse_args()
    try:
        with start(options.root) as server:
            print(server.dsn, flush=True)
            _wait_for_the_end()
    except EmbeddedUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _wait_for_the_end() -> None:
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())

    def note(number: int, frame: FrameType | None) -> None:
        """Do nothing: the wakeup descriptor already received the signal."""

    signal.signal(signal.SIGINT, note)
    signal.signal(signal.SIGTERM, note)
    watched = [woken.fileno(), *([0] if _stdin_is_a_pipe() else [])]
    while True:
        readable, _, _ = select.select(watched, [], [])
        if woken.fileno() in readable or not os.read(0, 4096):
            return


def _stdin_is_a_pipe() -> bool:
    # A background process may not read from a terminal, and /dev/null is always at its end.
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


if __name__ == "__main__":
    sys.exit(main())
