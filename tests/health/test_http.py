"""The server alone: what clients may do, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from http import HTTPStatus

import pytest

from headway.core.address import Address, parse_address
from headway.engine.health import http
from headway.engine.health.http import Answer, HttpServer
from headway.errors import ConfigError
from tests.health.ask import Reply, get, say
from tests.support import eventually


async def _answer(path: str) -> Answer | None:
    match path:
        case "/there":
            return Answer(HTTPStatus.OK, "hé\n")
        case "/large":
            return Answer(HTTPStatus.OK, "x" * 3_000_000)
        case "/broken":
            raise RuntimeError("secret words")
        case _:
            return None


@pytest.fixture
async def port() -> AsyncIterator[int]:
    with http.bind(parse_address("127.0.0.1:0")) as listening:
        async with HttpServer(listening, _answer):
            yield listening.getsockname()[1]


async def test_what_is_there_is_answered_and_the_connection_ends(port: int) -> None:
    reply = await get(port, "/there?seen=1")
    assert (reply.status, reply.body) == (200, "hé\n")
    assert reply.headers["Content-Length"] == "4"
    assert reply.headers["Connection"] == "close"
    assert reply.headers["Cache-Control"] == "no-store"


async def test_a_head_is_the_same_without_its_body(port: int) -> None:
    there, head = await get(port, "/there"), await get(port, "/there", "HEAD")
    assert head == Reply(there.status, there.headers, "")


async def test_a_large_answer_arrives_whole(port: int) -> None:
    assert len((await get(port, "/large")).body) == 3_000_000


@pytest.mark.parametrize("path", ["/", "/there/", "/THERE", "*", "http://test/there"])
async def test_there_is_nothing_else(port: int, path: str) -> None:
    assert (await get(port, path)).status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "get"])
async def test_only_get_and_head_are_allowed(port: int, method: str) -> None:
    reply = await get(port, "/there", method)
    assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD")


async def test_a_body_that_nobody_wants_does_not_cost_the_client_its_answer(port: int) -> None:
    head = b"POST /there HTTP/1.1\r\nContent-Length: 100000\r\n\r\n"
    assert (await say(port, head + b"x" * 100_000)).status == 405


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"GET /there\r\n\r\n",
        b"GET /there HTTP/2\r\n\r\n",
        b"GET  /there HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\xfc\r\n\r\n",
        b"\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_refused(port: int, request_: bytes) -> None:
    assert (await say(port, request_)).status == 400


async def test_a_head_that_is_too_large_is_refused_and_not_kept(port: int) -> None:
    assert (await say(port, b"GET /there HTTP/1.1\r\nX: " + b"y" * 50_000)).status == 431


async def test_an_answer_that_fails_says_nothing_of_why(port: int) -> None:
    reply = await get(port, "/broken")
    assert (reply.status, reply.body) == (500, "Internal Server Error\n")
    assert (await get(port, "/there")).status == 200


async def test_a_client_that_says_nothing_is_sent_away(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_ASKS_WITHIN", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /there HTTP/1.1\r\n")
    assert await _ended(reader) == b""
    writer.close()
    assert (await get(port, "/there")).status == 200


async def test_a_client_that_does_not_begin_is_sent_away_sooner(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_BEGINS_WITHIN", 0.05)
    monkeypatch.setattr(http, "_ASKS_WITHIN", 600)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /there")
    assert await _ended(reader) == b""
    writer.close()


async def test_s9_the_client_that_has_been_idle_longest_makes_room_for_a_new_one(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_MOST_IDLE", 2)
    monkeypatch.setattr(http, "_BEGINS_WITHIN", 600)
    monkeypatch.setattr(http, "_ASKS_WITHIN", 600)
    first, second = [await _idle(port) for _ in range(2)]
    assert (await get(port, "/there")).status == 200
    assert await _ended(first[0]) == b"", "it was sent away without an answer"
    second[1].write(b"TP/1.1\r\n\r\n")
    assert (await second[0].read()).startswith(b"HTTP/1.1 200")
    for _, writer in (first, second):
        writer.close()


async def test_s9_every_probe_is_answered_whatever_idle_clients_do(port: int) -> None:
    """Seventy that come back as soon as they are sent away, and twenty-four probes."""
    came_back = 0

    async def hang_about() -> None:
        nonlocal came_back
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /there")
                await _ended(reader)
                writer.close()
                came_back += 1

    crowd = [asyncio.create_task(hang_about()) for _ in range(70)]
    try:
        await eventually(lambda: came_back > 0)
        for _ in range(24):
            assert (await get(port, "/there")).status == 200
    finally:
        for task in crowd:
            task.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)


async def test_s9_livez_is_answered_while_others_wait_for_the_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "_MOST_ANSWERED", 2)
    waiting: list[asyncio.Event] = []

    async def answer(path: str) -> Answer:
        if path != "/livez":
            waiting.append(asyncio.Event())
            await waiting[-1].wait()
        return Answer(HTTPStatus.OK, "ok\n")

    with http.bind(parse_address("127.0.0.1:0")) as listening:
        port = listening.getsockname()[1]
        async with HttpServer(listening, answer, first=("/livez",)):
            slow = [asyncio.create_task(get(port, "/readyz")) for _ in range(2)]
            await eventually(lambda: len(waiting) == 2)
            assert (await get(port, "/readyz")).status == 503, "one more is too many"
            assert (await get(port, "/livez")).status == 200
            for event in waiting:
                event.set()
            assert [(await task).status for task in slow] == [200, 200]


async def _idle(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client whom the server knows, and who has said too little."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /there HT")
    await writer.drain()
    return reader, writer


async def test_an_address_that_is_taken_is_an_error_that_names_it() -> None:
    with http.bind(Address("127.0.0.1", 0)) as first:
        taken = first.getsockname()[1]
        with pytest.raises(ConfigError) as raised:
            http.bind(Address("127.0.0.1", taken))
        assert str(raised.value).startswith(
            f"health: cannot listen on 127.0.0.1:{taken} (Address already in use); choose another"
        )


async def _ended(reader: asyncio.StreamReader) -> bytes:
    """Return all bytes that arrive before the other side ends the connection."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""
