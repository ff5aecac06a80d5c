"""The worker's connections, in the hands of the driver.

Each call of a service to the database is a message with two points: the server carries it out, and
the reply arrives. Nothing happens to a message until the driver decides. Handlers wait for the driver
as well: their end is a message that no server sees.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import psycopg
import pytest

from headway.errors import DatabaseUnavailable
from headway.store.connections.engine_connection import EngineConnection
from headway.store.connections.handler_transactions import (
    AsyncHandlerTransaction,
    HandlerTransactions,
)
from headway.store.statement import Statement

SCRIPTED = ("job_loop", "heartbeat", "stops", "parallel_admitter", "admitter")
"""The services whose calls are messages. The calls of the others are answered at once."""


@dataclass(eq=False)
class Message:
    """A call that waits for its reply."""

    number: int
    service: str
    """Its sender: a service, `commit` for a handler's transaction, `handler` for a handler."""
    about: tuple[str, ...]
    """The names of its statements."""
    link: EngineConnection | None
    call: Callable[[], Awaitable[Any]]
    """Carries it out at the server."""
    lost: Callable[[], BaseException]
    """Makes the error that its sender sees when the connection is cut."""
    reply: asyncio.Future[Any]
    answer: Any = None
    error: BaseException | None = None
    carried_out: bool = False
    note: str = ""
    """The server's error, if it refused the message."""
    holds: int = 0
    """After how many further steps it goes on, if it is held."""

    def __repr__(self) -> str:
        return f"{self.service}({', '.join(name.rpartition('/')[2] for name in self.about)})"

    async def carry_out(self) -> None:
        """The server does it, and answers. Nobody has the answer yet."""
        self.carried_out = True
        try:
            self.answer = await self.call()
        except Exception as error:
            self.error = error
            if not isinstance(error, AssertionError):
                self.note = f" -> {type(error).__name__}: {str(error)[:150]}"

    def deliver(self) -> None:
        """The reply arrives."""
        if not self.reply.done():
            if self.error is not None:
                self.reply.set_exception(self.error)
            else:
                self.reply.set_result(self.answer)

    def lose(self) -> None:
        """The connection is cut: no reply will come."""
        if not self.reply.done():
            self.reply.set_exception(self.lost())


@dataclass
class Wire:
    """All messages that are under way."""

    scripted: bool = False
    """Whether calls wait for the driver."""
    away: bool = False
    """The server cannot be reached."""
    sent: list[Message] = field(default_factory=list[Message])
    """Messages that wait for the driver, oldest first."""
    held: list[Message] = field(default_factory=list[Message])
    """Messages on their way to the server, or replies on their way back."""
    busy: int = 0
    """Calls that the server is at now, without the driver."""
    done: asyncio.Event = field(default_factory=asyncio.Event)
    """It has none of these."""
    _locks: defaultdict[EngineConnection, asyncio.Lock] = field(
        default_factory=lambda: defaultdict[EngineConnection, asyncio.Lock](asyncio.Lock)
    )
    _numbers: count[int] = field(default_factory=count)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Take the place of the engine's connections, and of the commits of handlers."""
        run_all = EngineConnection.run_all

        async def scripted(link: EngineConnection, *statements: Statement[Any]) -> list[Any]:
            service = _sender()
            about = tuple(statement.name for statement in statements)
            async with self._locks[link]:  # a link has one call at a time
                if self.away:
                    raise _unavailable()
                if self.scripted and service in SCRIPTED:
                    call = lambda: run_all(link, *statements)  # noqa: E731
                    answers: list[Any] = await self.send(service, about, link, call)
                    return answers
                return await self.aside(run_all(link, *statements))

        async def commit(transaction: AsyncHandlerTransaction) -> None:
            end = lambda: transaction._block.__aexit__(None, None, None)  # noqa: E731
            await self.send("commit", (), None, end, lost=_broken)
            transaction._done(transaction.conn)

        patch.setattr(EngineConnection, "run_all", scripted)
        patch.setattr(EngineConnection, "cut", lambda link: self.cut(link))
        patch.setattr(AsyncHandlerTransaction, "commit", commit)
        patch.setattr(
            AsyncHandlerTransaction, "settle", self._watched(AsyncHandlerTransaction.settle)
        )
        patch.setattr(HandlerTransactions, "begin", self._watched(HandlerTransactions.begin))

    async def aside(self, call: Awaitable[Any]) -> Any:
        """Return the answer to a call that is not a message; the driver waits for it."""
        self.busy += 1
        self.done.clear()
        try:
            return await call
        finally:
            self.busy -= 1
            if not self.busy:
                self.done.set()

    def _watched(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        return lambda *args, **kwargs: self.aside(call(*args, **kwargs))

    async def send(
        self,
        service: str,
        about: tuple[str, ...],
        link: EngineConnection | None,
        call: Callable[[], Awaitable[Any]],
        lost: Callable[[], BaseException] | None = None,
    ) -> Any:
        """Return the reply to a message, when the driver lets it arrive."""
        reply = asyncio.get_running_loop().create_future()
        lost = lost or _unavailable
        message = Message(next(self._numbers), service, about, link, call, lost, reply)
        self.sent.append(message)
        try:
            return await reply
        finally:
            for messages in (self.sent, self.held):
                if message in messages:
                    messages.remove(message)

    def cut(self, link: EngineConnection) -> None:
        """The worker gives up a connection: what is under way on it gets no reply."""
        for message in [*self.sent, *self.held]:
            if message.link is link:
                message.lose()


def _sender() -> str:
    task = asyncio.current_task()
    return "" if task is None else task.get_name().removeprefix("headway-")


def _unavailable() -> BaseException:
    return DatabaseUnavailable("the script cut the connection")


def _broken() -> BaseException:
    return psycopg.OperationalError("the script cut the connection")
