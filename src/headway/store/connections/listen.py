"""LISTEN on one connection. A notification is a hint that there may be news, never a fact.

Notifications are lost while a connection is down. They never arrive through a transaction pooler, which
accepts LISTEN without an error. So a listener tests itself: it sends one notification and waits for it.
Behind a pooler another connection sends it. On the listener's own connection even a transaction pooler
passes it on, together with the statement's reply.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing, closing

from psycopg import sql

from headway.core.clock import monotonic
from headway.core.ids import new_nonce
from headway.errors import DatabaseUnavailable, StandbyRefused
from headway.store.connections.answer_limit import SyncAnswerLimit
from headway.store.connections.connect import (
    AsyncConn,
    SyncConn,
    Target,
    answer_within,
    connect,
    connect_sync,
    cut,
    is_direct,
)
from headway.store.faults import DRIVER_ERRORS, OWN_CUT, translate

_TEST_TIMEOUT = 2.0
_RETEST_AFTER = 60.0
"""Seconds after which a target without notifications is tested again."""
_ANSWERS_WITHIN = 10.0
_LISTEN = sql.SQL("listen {}")
_UNLISTEN = "unlisten *"
_NOTIFY = "select pg_catalog.pg_notify(%s::text, %s::text)"
"""Qualified: a listener in a thread runs nothing else, so its session is not pinned (connect.py)."""


class NotificationsBlocked(DatabaseUnavailable):
    """The server accepted LISTEN, but no notification arrives: there is a transaction pooler."""


class Hearing:
    """Remembers whether notifications of a target arrive. All listeners of the target share it."""

    def __init__(self) -> None:
        self.proven = False
        """Whether a notification arrived once."""
        self._blocked_until = 0.0

    @property
    def blocked_for(self) -> float:
        """Seconds until another try to listen makes sense; 0 if it does now."""
        return max(self._blocked_until - monotonic(), 0.0)

    def prove(self, heard: bool) -> None:
        """Record the result of a test."""
        self.proven = heard
        self._blocked_until = 0.0 if heard else monotonic() + _RETEST_AFTER


class Listener:
    """The payloads of one channel, for as long as its connection lasts."""

    def __init__(self, target: Target, channel: str) -> None:
        self._target = target
        self._channel = channel
        self._conn: AsyncConn | None = None
        self._cut = False

    async def open(self) -> None:
        """Connect. Raise `NotificationsBlocked` if notifications do not arrive."""
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
        """Yield every payload from now on. Raise `DatabaseUnavailable` when the connection ends."""
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
        """End the connection. `heard` then raises `DatabaseUnavailable`."""
        if self._conn is not None:
            self._cut = True
            cut(self._conn)

    async def close(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            await conn.close()

    async def _prove(self, conn: AsyncConn) -> None:
        nonce = f"hello {new_nonce()}"
        async with AsyncExitStack() as stack:
            caller = conn
            if not is_direct(conn):
                caller = await stack.enter_async_context(await connect(self._target))
            await caller.execute(_NOTIFY, (self._channel, nonce))
        async with aclosing(conn.notifies(timeout=_TEST_TIMEOUT)) as notifications:
            async for notification in notifications:
                if notification.payload == nonce:
                    return
        await conn.execute(_UNLISTEN)  # works if the pooler gives us the same server connection
        raise NotificationsBlocked(
            "the server accepted LISTEN but no notification arrives, as behind a transaction pooler; "
            "polling instead"
        )


class SyncListener:
    """Waits in a thread until a notification arrives or it is time to poll."""

    def __init__(
        self,
        target: Target,
        channel: str | None,
        hearing: Hearing | None = None,
        within: float | None = None,
    ) -> None:
        """`within` is how many seconds opening may take."""
        self._target = target
        self._channel = channel
        self._hearing = Hearing() if hearing is None else hearing
        self._within = _ANSWERS_WITHIN if within is None else min(within, _ANSWERS_WITHIN)
        self._conn: SyncConn | None = None

    def __enter__(self) -> SyncListener:
        if self._channel is not None and not self._hearing.blocked_for:
            try:
                self._conn = connect_sync(self._target, self._within)
                with SyncAnswerLimit(self._conn, self._within):
                    self._conn.execute(_LISTEN.format(sql.Identifier(self._channel)))
                    if not self._hearing.proven:
                        self._prove(self._conn, self._channel)
            except (*DRIVER_ERRORS, StandbyRefused):
                self._disconnect()
        return self

    def __exit__(self, *error: object) -> None:
        self._disconnect()

    @property
    def hears(self) -> bool:
        """Whether notifications can arrive."""
        return self._conn is not None

    def wait_sync(self, payload: str, tries: int, most: float | None) -> None:
        """Return when `payload` has arrived, or when it is time to poll."""
        seconds = poll_after(self.hears, tries)
        self.wait_until(payload.__eq__, seconds if most is None else min(seconds, most))

    def wait_until(self, wanted: Callable[[str], bool], seconds: float) -> None:
        """Return when a wanted payload has arrived, or after `seconds`."""
        if self._conn is None:
            time.sleep(seconds)
            return
        try:
            with closing(self._conn.notifies(timeout=seconds)) as notifications:
                for notification in notifications:
                    if wanted(notification.payload):
                        return
        except DRIVER_ERRORS:
            self._disconnect()

    def _prove(self, conn: SyncConn, channel: str) -> None:
        nonce = f"hello {new_nonce()}"
        within = min(_TEST_TIMEOUT, self._within)
        with (
            connect_sync(self._target, self._within) as caller,
            SyncAnswerLimit(caller, self._within),
        ):
            caller.execute(_NOTIFY, (channel, nonce))
        with closing(conn.notifies(timeout=within)) as notifications:
            for notification in notifications:
                if notification.payload == nonce:
                    self._hearing.prove(True)
                    return
        if within == _TEST_TIMEOUT:  # a shorter test proves nothing
            self._hearing.prove(False)
        conn.execute(_UNLISTEN)
        self._disconnect()

    def _disconnect(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()


def poll_after(hears: bool, tries: int) -> float:
    """Return how long to wait for the end of a job before the next poll, after `tries` polls.

    With notifications, two quick polls cover a settling that began before the wait and did not see it.
    After that, only a notification that was lost with its connection can be missing.
    """
    if hears:
        return (0.02, 0.2)[tries] if tries < 2 else 2.0
    return min(1.0, 0.05 * 1.5 ** min(tries, 20))
