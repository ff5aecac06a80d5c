"""An event loop in a thread of its own, for what stands between clients and the server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

R = TypeVar("R")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class OwnLoop:
    """Runs coroutines for callers in other threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def soon(self, call: Any, *arguments: Any) -> None:
        self._loop.call_soon_threadsafe(call, *arguments)

    def close(self) -> None:
        self.do(self._end_tasks())
        self.soon(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def dial(upstream: Mapping[str, Any]) -> Streams:
    """Connects to a server, over its Unix socket or TCP, as its DSN says."""
    host, port = str(upstream["host"]), int(upstream.get("port", 5432))
    if host.startswith("/"):
        return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}", limit=2**24)
    return await asyncio.open_connection(host, port, limit=2**24)
