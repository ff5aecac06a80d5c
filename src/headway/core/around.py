"""Code that an app runs around each attempt of its jobs: for example, to close a framework's connections.

An app has one list of these (`Session.around`), and every definition of the app refers to it. So the list
also reaches handlers in threads, in child processes and in batches.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol


class Around(Protocol):
    """Code around an attempt. An attempt on the loop may call functions in threads meanwhile."""

    def on_loop(self) -> AbstractAsyncContextManager[object]:
        """Return what is entered on the event loop, around dependencies and handler."""
        ...

    def in_thread(self) -> AbstractContextManager[object]:
        """Return what is entered in a thread, around one plain function."""
        ...
