"""A transaction pooler, as small as one can be: a server connection belongs to a client only for the
length of a transaction. As in PgBouncer,
 - clients are greeted by the pooler itself, under a made-up backend pid;
 - the link lasts from a client's first packet until the server has answered its last Sync or Query
   outside a transaction;
 - prepared statements, settings and LISTEN stay with whatever server connection they happened on;
 - a notification goes to the client that is linked when it arrives, or to nobody.
The connection used last is used next. The server must let the pooler in without a password.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.crash.own_loop import OwnLoop, dial

_CANCEL, _SSL, _GSS = 80877102, 80877103, 80877104
_PIDS = itertools.count(10_000_000)


class Pooler:
    """`with Pooler(dsn, size=3) as pooler:` and connect to `pooler.dsn`."""

    def __init__(self, upstream: str, size: int) -> None:
        self._upstream: dict[str, Any] = dict(conninfo_to_dict(upstream))
        self._size = size
        self._loop = OwnLoop()
        self._free: asyncio.LifoQueue[_Server] = asyncio.LifoQueue()
        self._servers: set[_Server] = set()
        self._serving: set[asyncio.Task[Any] | None] = set()
        self.greeting = b""
        self.transactions = 0
        self.dsn = ""

    def __enter__(self) -> Pooler:
        port = self._loop.do(self._open())
        place = {key: self._upstream.get(key) for key in ("dbname", "user")}
        self.dsn = make_conninfo(
            host="127.0.0.1", port=port, sslmode="disable", gssencmode="disable", **place
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.do(self._close())
        self._loop.close()

    async def _open(self) -> int:
        for _ in range(self._size):
            await self._add_server()
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**24)
        port: int = self._listening.sockets[0].getsockname()[1]
        return port

    async def _close(self) -> None:
        self._listening.close()
        for server in self._servers:
            server.close()

    async def _add_server(self) -> None:
        server = _Server(self, *await dial(self._upstream))
        self.greeting = await server.start(self._upstream["user"], self._upstream["dbname"])
        self._servers.add(server)
        self.give_back(server)

    async def take(self) -> _Server:
        self.transactions += 1
        return await self._free.get()

    async def replace(self, server: _Server) -> None:
        """Its client went away in the middle of a transaction."""
        server.close()
        self._servers.discard(server)
        await self._add_server()

    def give_back(self, server: _Server) -> None:
        self._free.put_nowait(server)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(serving := asyncio.current_task())  # the loop does not keep it alive
        try:
            await _Client(self, reader, writer).run()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # a client that leaves, or the end of all
        finally:
            writer.transport.abort()
            self._serving.discard(serving)


class _Client:
    """One client, linked to a server connection from a transaction's first packet to its end."""

    def __init__(self, pooler: Pooler, reader: asyncio.StreamReader, writer: Any) -> None:
        self._pooler, self._reader, self._writer = pooler, reader, writer
        self.server: _Server | None = None

    def send(self, packet: bytes) -> None:
        self._writer.write(packet)

    async def run(self) -> None:
        if not await self._greet():
            return
        try:
            while True:
                kind, packet = await _packet(self._reader)
                if kind == b"X":
                    return
                if self.server is None:
                    self.server = await self._pooler.take()
                    self.server.client = self
                self.server.send(kind, packet)
        finally:
            if self.server is not None:
                await self._pooler.replace(self.server)

    async def _greet(self) -> bool:
        while True:
            (length,) = struct.unpack("!I", await self._reader.readexactly(4))
            body = await self._reader.readexactly(length - 4)
            (code,) = struct.unpack("!I", body[:4])
            if code == _CANCEL:
                return False
            if code not in (_SSL, _GSS):
                break
            self._writer.write(b"N")
        key = struct.pack("!cIII", b"K", 12, next(_PIDS), 0)
        self._writer.write(
            struct.pack("!cII", b"R", 8, 0) + self._pooler.greeting + key + b"Z\0\0\0\5I"
        )
        return True


class _Server:
    """One server connection. Its packets go to its client; without one they are dropped."""

    def __init__(self, pooler: Pooler, reader: asyncio.StreamReader, writer: Any) -> None:
        self._pooler, self._reader, self._writer = pooler, reader, writer
        self.client: _Client | None = None
        self._owed = 0

    async def start(self, user: str, database: str) -> bytes:
        """Logs in; the server's settings, to greet clients with."""
        words = f"user\0{user}\0database\0{database}\0application_name\0pooler\0\0".encode()
        self._writer.write(struct.pack("!II", len(words) + 8, 196608) + words)
        settings = b""
        while True:
            kind, packet = await _packet(self._reader)
            if kind == b"S":
                settings += packet
            elif kind == b"Z":
                break
        self._pump = asyncio.create_task(self._run())
        return settings

    def send(self, kind: bytes, packet: bytes) -> None:
        self._owed += kind in (b"S", b"Q")
        self._writer.write(packet)

    def close(self) -> None:
        self.client = None
        self._pump.cancel()
        self._writer.transport.abort()

    async def _run(self) -> None:
        while True:
            kind, packet = await _packet(self._reader)
            if self.client is not None:
                self.client.send(packet)
            if kind == b"Z":
                self._owed -= 1
                if packet[5:] == b"I" and self._owed == 0 and self.client is not None:
                    self.client.server, self.client = None, None
                    self._pooler.give_back(self)


async def _packet(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(struct.unpack("!I", head[1:])[0] - 4)
