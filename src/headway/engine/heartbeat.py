"""Keeping the lease, and knowing when it can no longer be trusted.

The lease in the database runs from a moment no earlier than the one at which the heartbeat was sent.
So this worker trusts it for one lease from then, less a margin, by its own monotonic clock, and
stops its handlers before anyone else may start them, whether or not the database can be reached. It
stops claiming at the first heartbeat that fails.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from headway.core.clock import Clock, monotonic
from headway.engine.running.executor import Executor
from headway.engine.service import Service, log
from headway.store import fleet, jobs
from headway.store.link import Link
from headway.store.statement import Statement

BEATS_PER_LEASE = 3
_MARGIN = 0.1


class Heartbeat(Service):
    """Registers the worker, keeps its one row alive, and registers it anew if that was lost."""

    def __init__(
        self,
        link: Link,
        clock: Clock,
        executor: Executor,
        lease: float,
        *,
        register: Callable[[], Statement[int]],
        trust: Callable[[int], None],
        duty: Callable[[bool], None],
        reconnect: Callable[[], None],
        listening: Callable[[], bool | None],
        drain: Callable[[], None],
    ) -> None:
        """`trust` is told the id to claim by, 0 for none; `duty` whether the sweeps are ours.

        `reconnect` is called when the lease is given up, and at the first beat after one that failed:
        connections made before that may wait for answers that never come. `listening` says what is to
        be noted of this worker; `drain` is called when somebody asked it to.
        """
        super().__init__()
        self._link = link
        self._clock = clock
        self._executor = executor
        self._lease = lease
        self._register = register
        self._trust = trust
        self._duty = duty
        self._reconnect = reconnect
        self._listening = listening
        self._drain = drain
        self._failed = False
        self._alarm: asyncio.TimerHandle | None = None
        self._last_beat = monotonic()
        self.beaten_at: float | None = None
        """When the last beat that was answered in time was sent."""
        self.worker_id = 0

    async def turn(self) -> float | None:
        sent_at = monotonic()
        if self.worker_id == 0:
            self.worker_id = await self._link.run(self._register())
        try:
            return await self._beat(sent_at)
        except BaseException:
            self._failed = True
            self._trust(0)
            raise

    async def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        await self._link.close()

    async def _beat(self, sent_at: float) -> float:
        # A job started since the last beat cannot have been lost: its claim proved the lease.
        old = [r.claim for r in self._executor.running.values() if r.since <= self._last_beat]
        beat = fleet.heartbeat(
            self.worker_id, self._lease, self._clock.now(), listening=self._listening()
        )
        answers = await self._link.run_all(beat, jobs.held(old))
        found: fleet.Beat | None = answers[0]
        held: dict[str, bool] = answers[1]
        if found is None:
            log.error("worker %d was given up by the fleet; it begins anew", self.worker_id)
            self._expire()
            return 0
        if self._failed:
            self._failed = False
            self._reconnect()
        self._last_beat = self.beaten_at = sent_at
        self._renewed(sent_at)
        self._duty(found.duty)
        if found.draining:
            self._drain()
        for claim in old:
            if claim.id not in held:
                self._executor.stop(claim.id, "lost")
            elif held[claim.id]:
                self._executor.stop(claim.id, "cancel")
        rest = self._lease / BEATS_PER_LEASE
        if found.duty or found.duty_runs_for is None:
            return rest
        # A duty whose holder went silent is taken over when its lease ends, not a beat later.
        return min(rest, max(0.05, found.duty_runs_for + random.uniform(0.02, 0.1)))

    def _renewed(self, since: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        trusted_until = since + self._lease * (1 - _MARGIN)
        self._alarm = asyncio.get_running_loop().call_later(
            trusted_until - monotonic(), self._expire
        )
        self._trust(self.worker_id)

    def _expire(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self.worker_id = 0
        self._trust(0)
        self._duty(False)
        self._executor.stop_all("lost")
        self._reconnect()
        self.wake()
