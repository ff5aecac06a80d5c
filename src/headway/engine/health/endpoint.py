"""A worker's health over HTTP: /livez, /readyz and /metrics, from a thread of its own.

The thread has its own event loop and, after the first request that needs one, its own connection. So it
answers even while the worker's loop is blocked. A request costs the worker only a few reads of numbers.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from http import HTTPStatus

from headway.core import codec
from headway.core.address import Address
from headway.core.clock import Clock
from headway.core.finding import Finding
from headway.engine.health import metrics, probe
from headway.engine.health.http import Answer, HttpServer, bind
from headway.engine.health.probe import DatabaseProbe
from headway.engine.health.state import Health, alive, is_well, ready
from headway.engine.service import log
from headway.store.connections.connect import Target

_JSON = "application/json"
_AT_ONCE = ("/livez",)
"""Paths that need no database. They are answered however many other requests wait."""
_ENDS_WITHIN = 5.0


class Endpoint:
    """The HTTP endpoint. It answers from `start` to `stop`."""

    def __init__(
        self, health: Health, target: Target, clock: Clock, max_wait: float | None
    ) -> None:
        """`max_wait` is how long a ready job may wait before /readyz mentions it."""
        self._health = health
        self._target = target
        self._clock = clock
        self._max_wait = max_wait
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._began = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, address: Address) -> Address:
        """Start. Return the actual address. Raise ConfigError if it cannot listen there."""
        listening = bind(address)
        host, port = listening.getsockname()[:2]
        self._thread = threading.Thread(
            target=self._run, args=[listening], name="headway-health", daemon=True
        )
        self._thread.start()
        self._began.wait()
        log.info("answering /livez, /readyz and /metrics on http://%s", Address(host, port))
        return Address(host, port)

    async def stop(self) -> None:
        """End the thread, and with it requests that still wait for an answer."""
        if self._loop is not None and self._ending is not None:
            with suppress(RuntimeError):  # the loop has already ended
                self._loop.call_soon_threadsafe(self._ending.set)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _ENDS_WITHIN)

    def _run(self, listening: socket.socket) -> None:
        try:
            with listening:
                asyncio.run(self._serve(listening))
        except Exception:
            log.exception("health: the endpoint has ended")
        finally:
            self._began.set()

    async def _serve(self, listening: socket.socket) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        self._probe = DatabaseProbe(self._target, self._clock)
        self._probe.start()
        try:
            async with HttpServer(listening, self.answer, first=_AT_ONCE):
                self._began.set()
                await self._ending.wait()
        finally:
            self._probe.cut()
            await self._probe.stop()

    async def answer(self, path: str) -> Answer | None:
        """Return the answer for a path, or None if the path does not exist."""
        match path:
            case "/livez":
                return self._findings(alive(self._health.vitals()))
            case "/readyz":
                return self._findings(await self._ready())
            case "/metrics":
                status = await self._probe.status(with_figures=True)
                text = metrics.exposition(self._health.vitals(), status)
                return Answer(HTTPStatus.OK, text, metrics.CONTENT_TYPE)
            case _:
                return None

    async def _ready(self) -> list[Finding]:
        status = await self._probe.status(with_figures=self._max_wait is not None)
        found = [*ready(self._health.vitals()), *probe.findings(status, self._target.schema)]
        if self._max_wait is not None:
            found += probe.late_queues(status, self._max_wait)
        return found

    def _findings(self, findings: list[Finding]) -> Answer:
        well = is_well(findings)
        body = codec.encode_document({"ok": well, "findings": findings})
        status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
        return Answer(status, f"{body}\n", _JSON)
