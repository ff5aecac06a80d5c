"""A very small HTTP server: GET and HEAD, one answer per connection, nothing else.

Everything that a client controls is bounded: the size of a request, its duration, the duration of the
answer and the number of clients. A misbehaving client harms only itself:

- At most `_MOST_IDLE` clients are idle, before their request or after the answer. A new client replaces
  the one that has been idle longest, so a client that sends its request at once is always served.
- At most `_MOST_ANSWERED` answers are in progress; other requests get 503. Paths in `first` do not count.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Collection, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus

from headway.core.address import Address
from headway.engine.service import log
from headway.errors import ConfigError

TEXT = "text/plain; charset=utf-8"

_MOST_BYTES = 8 * 1024
_MOST_IDLE = 64
_MOST_ANSWERED = 64
_BEGINS_WITHIN = 2.0
_ASKS_WITHIN = 5.0
_READS_WITHIN = 5.0
_LEAVES_WITHIN = 1.0
_METHODS = ("GET", "HEAD")
_REQUEST = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) (\S{1,4096}) HTTP/1\.[01]")


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a client."""

    status: HTTPStatus
    body: str
    kind: str = TEXT


Answering = Callable[[str], Awaitable[Answer | None]]
"""Returns the answer for a path, or None if the path does not exist."""


def bind(address: Address) -> socket.socket:
    """Return a socket that listens on an address. Raise ConfigError if that fails."""
    family = socket.AF_INET6 if address.is_v6 else socket.AF_INET
    try:
        return socket.create_server(
            (address.host, address.port),
            family=family,
            backlog=_MOST_IDLE,
            dualstack_ipv6=address.host == "::" and socket.has_dualstack_ipv6(),
        )
    except OSError as error:
        why = str(error.strerror or error).partition(" (while")[0]  # the rest repeats the address
        raise ConfigError(
            f"health: cannot listen on {address} ({why}); choose another address, or leave it out"
        ) from None


def check_free(address: Address, count: int) -> None:
    """Raise ConfigError unless `count` ports, from this one on, are free now."""
    for number in range(count):
        bind(address.next(number)).close()


class HttpServer:
    """Answers on a bound socket inside a `with` block."""

    def __init__(
        self, listening: socket.socket, answering: Answering, first: Collection[str] = ()
    ) -> None:
        """`first` are paths that are answered however many requests wait. Their answers need no time."""
        self._listening = listening
        self._answering = answering
        self._first = first
        self._idle: dict[asyncio.WriteTransport, None] = {}
        """Ordered by the start of their idle time."""
        self._answered = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> HttpServer:
        self._server = await asyncio.start_server(
            self._serve, sock=self._listening, limit=_MOST_BYTES
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        # Remaining clients are cut off when the loop ends.
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._converse(reader, writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass  # the client left, took too long, or was replaced by another
        finally:
            writer.transport.abort()  # the answer has been sent, or was not read in time

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with self._idling(writer.transport):
                line = await _request_line(reader)
        except asyncio.LimitOverrunError:
            too_large = _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            await _send(writer, _written(too_large, with_body=True))
        else:
            await self._reply(writer, line)
        # Closing with unread input would discard the part of the answer that the client has not read.
        with suppress(TimeoutError), self._idling(writer.transport):
            async with asyncio.timeout(_LEAVES_WITHIN):
                while await reader.read(_MOST_BYTES):
                    pass

    @contextmanager
    def _idling(self, client: asyncio.WriteTransport) -> Generator[None]:
        """Count a client as idle. If there are too many, drop the one that has been idle longest."""
        if len(self._idle) >= _MOST_IDLE:
            longest = next(iter(self._idle))
            del self._idle[longest]
            longest.abort()
        self._idle[client] = None
        try:
            yield
        finally:
            self._idle.pop(client, None)

    async def _reply(self, writer: asyncio.StreamWriter, line: bytes) -> None:
        request = _REQUEST.fullmatch(line)
        if request is None:
            await _send(writer, _written(_refusal(HTTPStatus.BAD_REQUEST), with_body=True))
            return
        method, target = (part.decode("latin-1") for part in request.groups())
        path, with_body = target.partition("?")[0], method != "HEAD"
        if method not in _METHODS:
            refused = _refusal(HTTPStatus.METHOD_NOT_ALLOWED)
        elif path not in self._first and self._answered >= _MOST_ANSWERED:
            refused = _refusal(HTTPStatus.SERVICE_UNAVAILABLE)
        else:
            refused = None
        if refused is not None:
            await _send(writer, _written(refused, with_body=with_body))
            return
        self._answered += 1
        try:
            await _send(writer, _written(await self._answer(path), with_body=with_body))
        finally:
            self._answered -= 1

    async def _answer(self, path: str) -> Answer:
        try:
            answer = await self._answering(path)
        except Exception:
            log.exception("health: could not answer %s", path)
            return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR)
        return answer or _refusal(HTTPStatus.NOT_FOUND)


async def _request_line(reader: asyncio.StreamReader) -> bytes:
    """Return the first line of a request after its whole head. Raise LimitOverrunError if too large."""
    async with asyncio.timeout(_ASKS_WITHIN):
        async with asyncio.timeout(_BEGINS_WITHIN):
            first = await reader.readuntil(b"\r\n")
        size = len(first)
        while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
            size += len(line)
            if size > _MOST_BYTES:
                raise asyncio.LimitOverrunError("the head is too large", size)
    return first.removesuffix(b"\r\n")


async def _send(writer: asyncio.StreamWriter, answer: bytes) -> None:
    writer.transport.set_write_buffer_limits(high=0)  # drain() then waits until everything is sent
    async with asyncio.timeout(_READS_WITHIN):
        writer.write(answer)
        writer.write_eof()
        await writer.drain()


def _refusal(status: HTTPStatus) -> Answer:
    return Answer(status, f"{status.phrase}\n")


def _written(answer: Answer, *, with_body: bool) -> bytes:
    body = answer.body.encode()
    lines = [
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        f"Content-Type: {answer.kind}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    if answer.status is HTTPStatus.METHOD_NOT_ALLOWED:
        lines.append(f"Allow: {', '.join(_METHODS)}")
    return "\r\n".join([*lines, "", ""]).encode() + (body if with_body else b"")
