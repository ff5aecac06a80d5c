"""One lifecycle for every loop of a worker.

A service has one method, `turn`: do what is due, and say how long to rest. Starting, stopping, being
woken and backing off from faults are here and nowhere else, so that no loop can spin during an
outage or be lost to an exception.
"""

from __future__ import annotations

import asyncio
import logging
import random
from abc import ABC, abstractmethod
from contextlib import suppress

from headway.core.clock import monotonic
from headway.engine.track import Track
from headway.errors import DatabaseUnavailable, StandbyRefused

log = logging.getLogger("headway.worker")

_FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
_CANCEL_AGAIN = 0.5


class Service(ABC):
    """A loop that turns until it is stopped."""

    waits_long = False
    """Its turn lasts until something happens: stopping it means cancelling that."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._pause = _FIRST_PAUSE
        self._ending = asyncio.Event()
        self.track = Track(self.name, waits_long=self.waits_long)
        """How its turns go."""
        self.turned_at = monotonic()
        """When its last turn ended, well or not; before that, when it was made or started."""

    @property
    def stopping(self) -> bool:
        return self._ending.is_set()

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def tracks(self) -> list[Track]:
        """All tracks of the service: one, unless parts of its turn may fail by themselves."""
        return [self.track]

    @abstractmethod
    async def turn(self) -> float | None:
        """Does what is due; returns the seconds to rest, none to rest until woken."""

    async def close(self) -> None:  # noqa: B027 - most services hold nothing
        """Frees what the service holds; called once, after its last turn."""

    def start(self) -> None:
        assert self._task is None, f"{self.name} was started twice"
        self.turned_at = monotonic()
        self._task = asyncio.create_task(self._run(), name=f"headway-{self.name}")

    def wake(self) -> None:
        """Ends the rest, or makes sure that there is none after the turn under way."""
        self._woken.set()

    async def stop(self) -> None:
        """Lets the turn under way finish (one that only waits is cancelled), and no other begin."""
        self._ending.set()
        self.wake()
        while self._task is not None and not self._task.done():
            # Again and again: before Python 3.12 a cancellation that arrives together with what was
            # waited for is lost (asyncio.wait_for, inside the driver).
            if self.waits_long:
                self._task.cancel()
            await asyncio.wait([self._task], timeout=_CANCEL_AGAIN if self.waits_long else None)
        self._task = None

    async def _run(self) -> None:
        try:
            while not self.stopping:
                self._woken.clear()
                rest = await self._guarded_turn()
                self.turned_at = monotonic()
                await self._rest(rest)
        finally:
            await self.close()

    async def _guarded_turn(self) -> float | None:
        self.track.began()
        try:
            rest = await self.turn()
        except (DatabaseUnavailable, StandbyRefused) as fault:
            # A standby is what a failover looks like before it is over.
            self.track.failed(fault, expected=True)
        except Exception as error:
            self.track.failed(error, expected=False)
        else:
            self.track.works()
            self._pause = _FIRST_PAUSE
            return rest
        # Jittered, so that a fleet does not come back to a recovering server as one.
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), pause * random.uniform(0.5, 1.0))
        return 0

    async def _rest(self, seconds: float | None) -> None:
        # A turn that asks for another at once has waited for the database: others had theirs meanwhile.
        if seconds != 0 and not self.stopping:
            timer = (
                None
                if seconds is None
                else asyncio.get_running_loop().call_later(seconds, self._woken.set)
            )
            await self._woken.wait()
            if timer is not None:
                timer.cancel()
