"""A client of a worker's endpoint that does no more than it is told to."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.support import DEADLINE

SAID = re.compile(r"answering .* on http://127\.0\.0\.1:(\d+)")


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: str

    def finding(self, about: str) -> tuple[str, str]:
        """Status and words of what was found about something."""
        (found,) = [f for f in json.loads(self.body)["findings"] if f["about"] == about]
        return found["status"], found["words"]

    def statuses(self) -> set[tuple[str, str]]:
        """Return the body, and its status."""
        return {(f["about"], f["status"]) for f in json.loads(self.body)["findings"]}

    def figures(self) -> dict[str, float]:
        """Every figure by its name and labels, as written."""
        lines = [line for line in self.body.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


async def say(port: int, request: bytes) -> Reply:
    """Sends these bytes and reads until the other side has ended."""
    async with asyncio.timeout(DEADLINE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(request)
            await writer.drain()
            return _read(await reader.read())
        finally:
            writer.close()


async def get(port: int, path: str, method: str = "GET") -> Reply:
    return await say(port, f"{method} {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())


def get_blocking(port: int, path: str) -> int:
    """Only the status, without an event loop."""
    return ask_blocking(port, path).status


def ask_blocking(port: int, path: str) -> Reply:
    """As `get`, without an event loop."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=DEADLINE) as reply:
            return Reply(int(reply.status), {}, reply.read().decode())
    except HTTPError as error:
        with error:
            return Reply(error.code, {}, error.read().decode())


def figure_blocking(port: int, name: str) -> float:
    """One figure, without an event loop."""
    return ask_blocking(port, "/metrics").figures()[name]


def _read(answer: bytes) -> Reply:
    head, _, body = answer.decode().partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return Reply(int(first.split()[1]), headers, body)


def port_said(output: str) -> int | None:
    """Where a worker says that it answers, if it has."""
    found = SAID.search(output)
    return int(found[1]) if found else None


def one_of(findings: Any, about: str) -> Any:
    (found,) = [finding for finding in findings if finding.about == about]
    return found
