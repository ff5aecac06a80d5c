"""Boundaries: the moments before a round trip reaches the server, and after its answer left it.

A proxy that names the statements of every round trip, counts them, and at a chosen one does something:
kills the worker, or nothing. Then it cuts the connection: a request that was not forwarded yet never
is, an answer never arrives.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

from tests.crash.proxy import Proxy, Trap, _Link

Stage = Literal["before", "after"]

COMMIT = "COMMIT\0"
"""For a trap of `Proxy`: the statement, and not READ COMMITTED."""
_PLACES = ("moves", "reads", "writes")


def _files() -> dict[str, str]:
    """How each of our SQL files begins, and what it is called."""
    sql = resources.files("headway.store") / "sql"
    return {
        file.read_text("utf-8").split("\n", 1)[0]: file.name.removesuffix(".sql")
        for place in _PLACES
        for file in (sql / place).iterdir()
        if file.name.endswith(".sql")
    }


_FILES = _files()


def name_of(statement: bytes) -> str:
    """The file that a statement is from; of others, their first words."""
    text = statement.decode(errors="replace").strip("\0 \n")
    first = text.split("\n", 1)[0]
    if (name := _FILES.get(first)) is not None:
        return name
    words = re.findall(r"\w+", re.sub(r'"?hw_\w+"?\.?', "", first).lower())
    return " ".join(words[:3])


@dataclass(frozen=True)
class Boundary:
    """A moment in a worker's life: the round trip in which a statement occurs for the n-th time."""

    statement: str
    occurrence: int
    stage: Stage

    def __str__(self) -> str:
        return f"{self.stage} {self.statement} {self.occurrence}"


class BoundaryProxy(Proxy):
    """As `Proxy`; with a boundary armed, it acts there once."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.seen = Counter[str]()
        """Statements on connections made since a boundary was armed last."""
        self.reached = threading.Event()
        self.generation = 0
        self._boundary: Boundary | None = None
        self._act: Callable[[], None] = lambda: None

    def arm(self, boundary: Boundary | None, act: Callable[[], None] = lambda: None) -> None:
        """For the worker that is started next: `act` is called where it gets to the boundary."""
        self._loop.do(self._arm_at(boundary, act))

    async def _arm_at(self, boundary: Boundary | None, act: Callable[[], None]) -> None:
        self.generation += 1
        self.seen.clear()
        self.reached.clear()
        self._boundary, self._act = boundary, act

    def meets(self, names: set[str]) -> Stage | None:
        """Counts a round trip; at which stage of it to act, if it is the one."""
        self.seen.update(names)
        there = self._boundary
        if there is None or there.statement not in names:
            return None
        if self.seen[there.statement] < there.occurrence:
            return None
        self._boundary = None
        return there.stage

    def act(self) -> None:
        self._act()
        self.reached.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            link = _BoundaryLink(self, (reader, writer), await self._connect())
        except OSError:
            writer.transport.abort()
            return
        self._links.add(link)
        with suppress(ConnectionError):
            await link.run()
        self._links.discard(link)


class _BoundaryLink(_Link):
    _proxy: BoundaryProxy

    def __init__(self, proxy: BoundaryProxy, client: Any, server: Any) -> None:
        super().__init__(proxy, client, server)
        self._generation = proxy.generation

    def _sprung(self) -> Trap | None:
        batch, self._batch = self._batch, []
        if self._generation != self._proxy.generation:
            return None  # the last words of a worker before
        match self._proxy.meets({name_of(said) for said in batch}):
            case "before":
                self._proxy.act()
                raise ConnectionAbortedError  # ends the pump, and with it the link
            case "after":
                return Trap("", "lose reply", answered=_Acting(self._proxy.act))
            case None:
                return None


class _Acting(threading.Event):
    """Does something when it is set."""

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__()
        self._act = act

    def set(self) -> None:
        self._act()
        super().set()
