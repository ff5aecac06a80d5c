"""A very small HTTP server: GET and HEAD, one answer per connection, nothing else.

What comes from outside is bounded: the size of a request, the time it may take, the time its answer may
take, and how many are at it at once. Whatever a client does harms nobody but itself.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

from headway.core.address import Address
from headway.engine.service import log
from headway.errors import ConfigError

TEXT = "text/plain; charset=utf-8"

_MOST_BYTES = 8 * 1024
_MOST_CLIENTS = 64
_ASKS_WITHIN = 5.0
_READS_WITHIN = 5.0
_LEAVES_WITHIN = 1.0
_METHODS = ("GET", "HEAD")
_REQUEST = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) (\S{1,4096}) HTTP/1\.[01]")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client is told."""

    status: HTTPStatus
    body: str
    kind: str = TEXT


Answering = Callable[[str], Awaitable[Answer | None]]
"""The answer to a path; none if there is nothing at it."""


def bind(address: Address) -> socket.socket:
    """A socket that listens there; ConfigError if that cannot be."""
    family = socket.AF_INET6 if address.is_v6 else socket.AF_INET
    try:
        return socket.create_server(
            (address.host, address.port),
            family=family,
            backlog=_MOST_CLIENTS,
            dualstack_ipv6=address.host == "::" and socket.has_dualstack_ipv6(),
        )
    except OSError as error:
        why = str(error.strerror or error).partition(" (while")[0]  # it names the address again
        raise ConfigError(
            f"health: cannot listen on {address} ({why}); choose another address, or none"
        ) from None


def check_free(address: Address, count: int) -> None:
    """ConfigError unless this port, and as many in all from it on, can be listened on now."""
    for number in range(count):
        bind(address.next(number)).close()


class HttpServer:
    """Answers on a bound socket for as long as its block lasts."""

    def __init__(self, listening: socket.socket, answering: Answering) -> None:
        self._listening = listening
        self._answering = answering
        self._clients = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> HttpServer:
        self._server = await asyncio.start_server(
            self._serve, sock=self._listening, limit=_MOST_BYTES
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        # Clients that are still at it are cut off with the loop.
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        try:
            if self._clients <= _MOST_CLIENTS:
                await self._converse(reader, writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass  # it went away, or took too long
        finally:
            self._clients -= 1
            writer.transport.abort()  # what was to be sent is sent, or was not read in time

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_ASKS_WITHIN):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            method, answer = "GET", _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        else:
            method, answer = await self._answer(head)
        writer.transport.set_write_buffer_limits(high=0)  # what is drained has all been sent
        async with asyncio.timeout(_READS_WITHIN):
            writer.write(_written(answer, with_body=method != "HEAD"))
            writer.write_eof()
            await writer.drain()
        # Closing while something is unread would throw away what the client has not read yet.
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVES_WITHIN):
                while await reader.read(_MOST_BYTES):
                    pass

    async def _answer(self, head: bytes) -> tuple[str, Answer]:
        request = _REQUEST.fullmatch(head.partition(b"\r\n")[0])
        if request is None:
            return "GET", _refusal(HTTPStatus.BAD_REQUEST)
        method, target = (part.decode("latin-1") for part in request.groups())
        if method not in _METHODS:
            return method, _refusal(HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            answer = await self._answering(target.partition("?")[0])
        except Exception:
            log.exception("health: %s was not answered", target)
            return method, _refusal(HTTPStatus.INTERNAL_SERVER_ERROR)
        return method, answer or _refusal(HTTPStatus.NOT_FOUND)


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
