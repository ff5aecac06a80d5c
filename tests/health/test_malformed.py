"""The audit's malformed requests: each is refused or cut, and the next client is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest

from headway.core.address import parse_address
from headway.engine.health import http
from headway.engine.health.http import Answer, HttpServer
from tests.health.ask import get
from tests.support import DEADLINE, eventually

_HOST = b"Host: test\r\n"
_TLS = bytes.fromhex("16030102000100fc0303") + bytes(range(200)) + b"\x00" * 40

_TABLE: dict[str, tuple[bytes, set[int]]] = {
    # Methods.
    "post": (b"POST /livez HTTP/1.1\r\n\r\n", {405}),
    "trace": (b"TRACE /livez HTTP/1.1\r\n\r\n", {405}),
    "a method nobody knows": (b"BREW /livez HTTP/1.1\r\n\r\n", {405}),
    "connect": (b"CONNECT other:443 HTTP/1.1\r\n\r\n", {405}),
    "a method of 100 letters": (b"G" * 100 + b" /livez HTTP/1.1\r\n\r\n", {400}),
    # Paths that lead elsewhere.
    "traversal": (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", {404}),
    "encoded traversal": (b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n\r\n", {404}),
    "traversal to what is there": (b"GET /x/../livez HTTP/1.1\r\n\r\n", {404}),
    "two slashes": (b"GET //livez HTTP/1.1\r\n\r\n", {404}),
    "another host": (b"GET http://other/livez HTTP/1.1\r\n\r\n", {404}),
    # Encodings.
    "a NUL": (b"GET /livez\x00 HTTP/1.1\r\n\r\n", {404}),
    "an encoded NUL": (b"GET /livez%00 HTTP/1.1\r\n\r\n", {404}),
    "not UTF-8": (b"GET /\xff\xfe HTTP/1.1\r\n\r\n", {404}),
    "an encoded path": (b"GET /%6c%69vez HTTP/1.1\r\n\r\n", {404}),
    # Lines that are not headers.
    "a fold in the first line": (b"GET /livez\r\n HTTP/1.1\r\n\r\n", {400}),
    "line feeds alone": (b"GET /livez HTTP/1.1\n\n\r\n\r\n", {400}),
    "carriage returns alone": (b"GET /livez HTTP/1.1\r\r\r\n\r\n", {400}),
    "no version": (b"GET /livez\r\n\r\n", {400}),
    "version 2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400}),
    "version 0.9": (b"GET /livez HTTP/0.9\r\n\r\n", {400}),
    "tabs": (b"GET\t/livez\tHTTP/1.1\r\n\r\n", {400}),
    "a TLS hello": (_TLS + b"\r\n\r\n", {400}),
    # Two requests in one.
    "two lengths": (
        b"POST /livez HTTP/1.1\r\n"
        + _HOST
        + b"Content-Length: 4\r\nContent-Length: 40\r\n\r\nabcd",
        {405},
    ),
    "a length and chunks": (
        b"POST /livez HTTP/1.1\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX",
        {405},
    ),
    # Too much.
    "a header of 20 KB": (b"GET /livez HTTP/1.1\r\nX: " + b"y" * 20_000 + b"\r\n\r\n", {431}),
    "2,000 headers": (b"GET /livez HTTP/1.1\r\n" + b"X: yyyyyy\r\n" * 2_000 + b"\r\n", {431}),
    "a line of 100 KB": (b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", {431}),
    "a path of 5 KB": (b"GET /" + b"x" * 5_000 + b" HTTP/1.1\r\n\r\n", {400}),
}
_SERVED: dict[str, bytes] = {
    "a folded header": b"GET /livez HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
    "a header without a colon": b"GET /livez HTTP/1.1\r\nnonsense\r\n\r\n",
    "a request with a body": b"GET /livez HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
    "two requests at once": b"GET /livez HTTP/1.1\r\n\r\nGET /nothing HTTP/1.1\r\n\r\n",
    "a smuggled one": b"GET /livez HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    b"POST /nothing HTTP/1.1\r\n\r\n",
}
_CUT: dict[str, bytes] = {
    "nothing at all": b"",
    "a slow line": b"GET /liv",
    "a slow header": b"GET /livez HTTP/1.1\r\nX: y",
    "half a TLS hello": _TLS,
}


async def _answer(path: str) -> Answer | None:
    return Answer(HTTPStatus.OK, "ok\n") if path == "/livez" else None


@pytest.fixture
async def port() -> AsyncIterator[int]:
    with http.bind(parse_address("127.0.0.1:0")) as listening:
        async with HttpServer(listening, _answer, first=("/livez",)):
            yield listening.getsockname()[1]


async def _said(port: int, request: bytes) -> bytes:
    """All that the server says before it ends the connection."""
    async with asyncio.timeout(DEADLINE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(request)
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


def _statuses(said: bytes) -> list[int]:
    return [int(part.split()[0]) for part in said.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize("name", _TABLE)
async def test_s9_a_malformed_request_is_refused_once(port: int, name: str) -> None:
    request, expected = _TABLE[name]
    said = await _said(port, request)
    assert set(_statuses(said)) == expected
    assert len(_statuses(said)) == 1
    assert b"root:" not in said
    assert (await get(port, "/livez")).status == 200


@pytest.mark.parametrize("name", _SERVED)
async def test_s9_only_the_first_request_of_a_connection_is_answered(port: int, name: str) -> None:
    assert _statuses(await _said(port, _SERVED[name])) == [200]


@pytest.mark.parametrize("name", _CUT)
async def test_s9_a_request_that_does_not_end_is_cut(
    port: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_ASKS_WITHIN", 0.1)
    assert await _said(port, _CUT[name]) == b""
    assert (await get(port, "/livez")).status == 200


async def test_s9_a_client_that_sends_a_letter_now_and_then_is_cut(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_ASKS_WITHIN", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /livez HTTP/1.1\r\nX: ")

    async def dripped() -> bool:
        writer.write(b"y")
        return reader.at_eof() or reader.exception() is not None

    await eventually(dripped)
    writer.close()
