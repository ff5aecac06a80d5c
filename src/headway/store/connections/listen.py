"""LISTEN on one connection: a hint that there may be news, never a truth.

Notifications are lost while a connection is down and never arrive through a transaction pooler,
which accepts LISTEN without a word. So a listener proves itself: it is called once and waits to hear
it. Through a pooler the call comes from another connection, because on its own one even a transaction
pooler lets it through, together with the statement's reply.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing, closing

from psycopg import sql

from headway.core.clock import monotonic
from headway.core.ids import new_nonce
from headway.errors import DatabaseUnavailable, StandbyRefused
from headway.store.connect import (
    AsyncLink,
    SyncLink,
    Target,
    answer_within,
    connect,
    connect_sync,
    cut,
    is_direct,
)
from headway.store.faults import DRIVER_ERRORS, OWN_CUT, translate
from headway.store.limit import SyncLimit

_HEARS_ITSELF_WITHIN = 2.0
_TRY_AGAIN = 60.0
"""Seconds after which a target that was deaf is tried again."""
_ANSWERS_WITHIN = 10.0
_LISTEN = sql.SQL("listen {}")
_UNLISTEN = "unlisten *"
_NOTIFY = "select pg_notify(%s, %s)"


class Deaf(DatabaseUnavailable):
    """LISTEN was accepted and nothing is heard: a transaction pooler stands in between."""


class Hearing:
    """Remembers of a target whether notifications arrive. All who listen to it share this."""

    def __init__(self) -> None:
        self.proven = False
        """Whether a notification arrived once."""
        self._deaf_until = 0.0

    @property
    def deaf_for(self) -> float:
        """Seconds for which a listener is not worth a try; 0 if it is."""
        return max(self._deaf_until - monotonic(), 0.0)

    def prove(self, heard: bool) -> None:
        """Remembers how a try ended."""
        self.proven = heard
        self._deaf_until = 0.0 if heard else monotonic() + _TRY_AGAIN


class Listener:
    """Payloads of one channel, for as long as its connection lasts."""

    def __init__(self, target: Target, channel: str) -> None:
        self._target = target
        self._channel = channel
        self._conn: AsyncLink | None = None
        self._cut = False

    async def open(self) -> None:
        """Connects and proves that notifications arrive; `Deaf` if they do not."""
        try:
            self._conn, self._cut = await connect(self._target), False
            with answer_within(self._conn, _ANSWERS_WITHIN):
                await self._conn.execute(_LISTEN.format(sql.Identifier(self._channel)))
                await self._prove(self._conn)
        except DRIVER_ERRORS as error:
            await self.close()
            raise translate(error) from error
        except BaseException:
            await self.close()
            raise

    async def heard(self) -> AsyncGenerator[str, None]:
        """Every payload from now on; ends by `DatabaseUnavailable` when the connection does."""
        assert self._conn is not None, "open() comes first"
        try:
            async with aclosing(self._conn.notifies()) as notifications:
                async for notification in notifications:
                    yield notification.payload
        except DRIVER_ERRORS as error:
            if self._cut:
                raise DatabaseUnavailable(OWN_CUT) from error
            raise translate(error) from error

    def cut(self) -> None:
        """Ends the connection for whoever listens."""
        if self._conn is not None:
            self._cut = True
            cut(self._conn)

    async def close(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            await conn.close()

    async def _prove(self, conn: AsyncLink) -> None:
        nonce = f"hello {new_nonce()}"
        async with AsyncExitStack() as stack:
            caller = conn
            if not is_direct(conn):
                caller = await stack.enter_async_context(await connect(self._target))
            await caller.execute(_NOTIFY, (self._channel, nonce))
        async with aclosing(conn.notifies(timeout=_HEARS_ITSELF_WITHIN)) as notifications:
            async for notification in notifications:
                if notification.payload == nonce:
                    return
        await conn.execute(_UNLISTEN)  # as far as the pooler gives us the same server connection
        raise Deaf(
            "LISTEN was accepted but nothing is heard, as behind a transaction pooler; "
            "polling instead"
        )


class SyncListener:
    """Waits for news in a thread: until a notification, or until it is time to poll."""

    def __init__(
        self,
        target: Target,
        channel: str | None,
        hearing: Hearing | None = None,
        within: float | None = None,
    ) -> None:
        """`within` are the seconds that opening may take."""
        self._target = target
        self._channel = channel
        self._hearing = Hearing() if hearing is None else hearing
        self._within = _ANSWERS_WITHIN if within is None else min(within, _ANSWERS_WITHIN)
        self._conn: SyncLink | None = None

    def __enter__(self) -> SyncListener:
        if self._channel is not None and not self._hearing.deaf_for:
            try:
                self._conn = connect_sync(self._target, self._within)
                with SyncLimit(self._conn, self._within):
                    self._conn.execute(_LISTEN.format(sql.Identifier(self._channel)))
                    if not self._hearing.proven:
                        self._prove(self._conn, self._channel)
            except (*DRIVER_ERRORS, StandbyRefused):
                self._deafen()
        return self

    def __exit__(self, *error: object) -> None:
        self._deafen()

    @property
    def hears(self) -> bool:
        """Whether anything can be heard."""
        return self._conn is not None

    def wait(self, payload: str, tries: int, most: float | None) -> None:
        """Returns when `payload` was heard, or when it is time to look."""
        seconds = patience(self.hears, tries)
        self.wait_until(payload.__eq__, seconds if most is None else min(seconds, most))

    def wait_until(self, wanted: Callable[[str], bool], seconds: float) -> None:
        """Returns when something wanted was heard, or after so long."""
        if self._conn is None:
            time.sleep(seconds)
            return
        try:
            with closing(self._conn.notifies(timeout=seconds)) as notifications:
                for notification in notifications:
                    if wanted(notification.payload):
                        return
        except DRIVER_ERRORS:
            self._deafen()

    def _prove(self, conn: SyncLink, channel: str) -> None:
        nonce = f"hello {new_nonce()}"
        within = min(_HEARS_ITSELF_WITHIN, self._within)
        with connect_sync(self._target, self._within) as caller, SyncLimit(caller, self._within):
            caller.execute(_NOTIFY, (channel, nonce))
        with closing(conn.notifies(timeout=within)) as notifications:
            for notification in notifications:
                if notification.payload == nonce:
                    self._hearing.prove(True)
                    return
        if within == _HEARS_ITSELF_WITHIN:  # a caller in a hurry proves nothing
            self._hearing.prove(False)
        conn.execute(_UNLISTEN)
        self._deafen()

    def _deafen(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()


def patience(hears: bool, tries: int) -> float:
    """How long to wait for the end of a job before looking again, by how often one has looked.

    Where the end will be heard of, two quick looks cover a settling that was under way when the wait
    began and did not see it; after that only a notification lost with its connection is left.
    """
    if hears:
        return (0.02, 0.2)[tries] if tries < 2 else 2.0
    return min(1.0, 0.05 * 1.5 ** min(tries, 20))
