"""A TCP proxy in front of PostgreSQL that misbehaves on command.

It reads the protocol, so it knows which statements a round trip carries, also those prepared
earlier, and when the server has answered. It can
 - lose a reply: forward the round trip, wait until the server is done, drop what it said and cut;
 - hold a round trip up, or the reply to one, until it is told to let go;
 - become a black hole: keep every socket open and forward nothing;
 - refuse: close every connection at once.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from dataclasses import dataclass, field
from typing import Any, Literal

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headway.store.statement import text
from tests.crash.own_loop import OwnLoop, Streams, dial

_ENDS_ROUND_TRIP = (b"S", b"Q")  # Sync, Query: the server answers each with ReadyForQuery
_FORWARDED_AT_ONCE = (*_ENDS_ROUND_TRIP, b"H", b"p", b"X")  # and Flush, a password, Terminate
_READY = b"Z"


def opening(statement: str, schema: str) -> str:
    """How one of our SQL files begins, for a trap: what stands before its first parameter."""
    return text(statement, schema).split("%(")[0]


@dataclass
class Trap:
    """Waits for a round trip with a statement in it that contains `words`."""

    words: str
    what: Literal["lose reply", "hold reply", "hold request"]
    patient: bool = False
    """A reply is lost only when it is let go of."""
    times: int = 1
    preparing: bool = False
    """It waits for the round trip that only prepares the statement."""
    sprung: threading.Event = field(default_factory=threading.Event)
    """Set when such a round trip is here; nothing of it has been forwarded yet."""
    answered: threading.Event = field(default_factory=threading.Event)
    """Set when the server is done with it: what it was to do is committed."""
    let_go: asyncio.Event = field(default_factory=asyncio.Event)


class Proxy:
    """`with Proxy(dsn) as proxy:` and connect to `proxy.dsn`. Commands come from any thread."""

    def __init__(self, upstream: str) -> None:
        self._upstream = conninfo_to_dict(upstream)
        self._loop = OwnLoop()
        self._links: set[_Link] = set()
        self.traps: list[Trap] = []
        self.flowing = asyncio.Event()
        self.refusing = False
        self.accepted = 0
        self.dsn = ""

    def __enter__(self) -> Proxy:
        port = self._loop.do(self._listen())
        place = {key: self._upstream.get(key) for key in ("dbname", "user", "password")}
        self.dsn = make_conninfo(
            host="127.0.0.1", port=port, sslmode="disable", gssencmode="disable", **place
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.do(self._close())
        self._loop.close()

    # -- commands ---------------------------------------------------------------------------------

    def lose_reply(self, words: str, *, times: int = 1, patient: bool = False) -> Trap:
        """The next `times` round trips with `words` are carried out and never answered.

        The connection is cut at once; if `patient`, when told to `release`.
        """
        return self._loop.do(self._arm(Trap(words, "lose reply", patient, times)))

    def hold_reply(self, words: str, *, preparing: bool = False) -> Trap:
        """The next round trip with `words` is carried out; its answer waits for `release`."""
        return self._loop.do(self._arm(Trap(words, "hold reply", preparing=preparing)))

    def hold_request(self, words: str) -> Trap:
        """The next round trip with `words` waits for `release` before the server sees it."""
        return self._loop.do(self._arm(Trap(words, "hold request")))

    def release(self, trap: Trap) -> None:
        """Lets go of what a trap holds."""
        self._loop.soon(trap.let_go.set)

    def black_hole(self) -> None:
        """Forwards nothing from now on, and closes nothing."""
        self._loop.soon(self.flowing.clear)

    def strand(self) -> None:
        """Forgets the connections there are, without closing them; new ones work."""
        self._loop.do(self._strand())

    def thaw(self) -> None:
        """Forwards again, what was held up included."""
        self._loop.soon(self.flowing.set)

    def refuse(self) -> None:
        """Cuts every connection, and each new one as soon as it comes."""
        self.refusing = True
        self._loop.do(self._cut())

    def accept(self) -> None:
        """Ends `refuse`."""
        self.refusing = False

    def redirect(self, upstream: str) -> None:
        """Cuts every connection; new ones go to another server."""
        self._upstream = conninfo_to_dict(upstream)
        self._loop.do(self._cut())

    # -- on the proxy's own loop ------------------------------------------------------------------

    async def _listen(self) -> int:
        self.flowing.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**24)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _arm(self, trap: Trap) -> Trap:
        self.traps.append(trap)
        return trap

    async def _cut(self) -> None:
        for link in list(self._links):
            link.cut()

    async def _strand(self) -> None:
        for link in self._links:
            link.flowing = asyncio.Event()

    async def _close(self) -> None:
        self._server.close()
        self.refusing = True
        self.flowing.set()
        await self._cut()
        await asyncio.gather(*(link.ended.wait() for link in self._links))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.refusing:
            writer.transport.abort()
            return
        await self.flowing.wait()
        try:
            server = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        link = _Link(self, (reader, writer), server)
        self._links.add(link)
        await link.run()
        self._links.discard(link)

    async def _connect(self) -> Streams:
        return await dial(self._upstream)


class _Link:
    """One client's connection and its way to the server."""

    def __init__(self, proxy: Proxy, client: Any, server: Any) -> None:
        self._proxy = proxy
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._prepared: dict[bytes, bytes] = {}
        self._batch: list[bytes] = []
        self._preparing: list[bytes] = []
        self._trap: Trap | None = None
        self._held: list[bytes] = []
        self._cut = asyncio.Event()
        self.flowing = proxy.flowing
        self.ended = asyncio.Event()

    async def run(self) -> None:
        pumps = [asyncio.create_task(pump) for pump in (self._forth(), self._back())]
        cut = asyncio.create_task(self._cut.wait())
        await asyncio.wait([*pumps, cut], return_when=asyncio.FIRST_COMPLETED)
        for task in (*pumps, cut):
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        self._to_client.transport.abort()
        self._to_server.transport.abort()
        self.ended.set()

    def cut(self) -> None:
        self._cut.set()

    async def _forth(self) -> None:
        # The first packet has no type: a startup, or a request to cancel.
        length = await self._from_client.readexactly(4)
        await self._pass(self._to_server, length, await self._rest(self._from_client, length))
        waiting: list[bytes] = []
        while True:
            kind, packet = await self._packet(self._from_client)
            waiting.append(packet)
            self._note(kind, packet[5:])
            if kind in _ENDS_ROUND_TRIP and (trap := self._sprung()):
                self._trap = trap
                trap.sprung.set()
                if trap.what == "hold request":
                    await trap.let_go.wait()
            if kind in _FORWARDED_AT_ONCE:
                await self._pass(self._to_server, *waiting)
                waiting.clear()

    async def _back(self) -> None:
        while True:
            kind, packet = await self._packet(self._from_server)
            if (trap := self._trap) is None:
                await self._pass(self._to_client, packet)
                continue
            self._held.append(packet)
            if kind != _READY:
                continue
            trap.answered.set()
            if trap.what == "hold reply" or trap.patient:
                await trap.let_go.wait()
            if trap.what == "lose reply":
                return  # which cuts
            self._trap = None
            await self._pass(self._to_client, *self._held)
            self._held.clear()

    async def _pass(self, writer: asyncio.StreamWriter, *packets: bytes) -> None:
        await self.flowing.wait()
        writer.writelines(packets)
        await writer.drain()

    async def _packet(self, reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
        head = await reader.readexactly(5)
        return head[:1], head + await self._rest(reader, head[1:])

    async def _rest(self, reader: asyncio.StreamReader, length: bytes) -> bytes:
        return await reader.readexactly(struct.unpack("!I", length)[0] - 4)

    def _note(self, kind: bytes, body: bytes) -> None:
        """Keeps the statements of the round trip at hand, by their text also when prepared."""
        if kind == b"P":
            name, said, _ = body.split(b"\0", 2)
            self._prepared[name] = said
            self._preparing.append(said)
        elif kind == b"B":
            _, name, _ = body.split(b"\0", 2)
            self._batch.append(self._prepared.get(name, b""))
        elif kind == b"Q":
            self._batch.append(body)

    def _sprung(self) -> Trap | None:
        """The trap that waits for this round trip, if there is one."""
        batch, self._batch = self._batch, []
        preparing, self._preparing = self._preparing, []
        for trap in self._proxy.traps:
            statements = preparing if trap.preparing and not batch else batch
            if any(trap.words.encode() in said for said in statements):
                trap.times -= 1
                if trap.times == 0:
                    self._proxy.traps.remove(trap)
                return trap
        return None
