"""Those who look at a worker from outside its loop: HTTP clients, systemd, the watch over the loop."""

from __future__ import annotations

from collections.abc import Sequence

from headway.core.address import parse_address
from headway.core.clock import Clock
from headway.engine.health.endpoint import Endpoint
from headway.engine.health.loop_watch import LoopWatch
from headway.engine.health.pulse import Pulse
from headway.engine.health.state import Health, storable
from headway.engine.health.systemd import Systemd
from headway.engine.service import log
from headway.errors import HeadwayError
from headway.store import fleet
from headway.store.connect import Target
from headway.store.once import run_once

_NOTED_WITHIN = 5.0


class Observers:
    """Serves those that are there. The watch over the event loop is always there."""

    def __init__(
        self, health: Health, target: Target, clock: Clock, max_wait: float | None
    ) -> None:
        """`max_wait` is how long a ready job may wait before /readyz mentions it."""
        self._health = health
        self._target = target
        self._systemd = Systemd()
        self._loop_watch = LoopWatch(health.running, lease=health.lease, note=self._note)
        self._endpoint = Endpoint(health, target, clock, max_wait)
        self._pulse: Pulse | None = None

    def start(self, address: str | int | None, process: int, queues: Sequence[str]) -> None:
        """Begins; with the endpoint `process` ports after `address`, if there is one."""
        self._health.loop_watch = self._loop_watch
        self._loop_watch.start()
        if address is None and not self._systemd.expects:
            return
        self._pulse = Pulse(self._health, self._systemd, f"serving {', '.join(queues)}")
        if address is not None:
            self._endpoint.start(parse_address(address).next(process))
        self._pulse.start()

    def look(self) -> None:
        """Something may have changed that they wait for."""
        if self._pulse is not None:
            self._pulse.wake()

    def draining(self) -> None:
        """The worker stops claiming."""
        self._health.draining = True
        if self._pulse is not None:
            self._pulse.draining()

    async def stop(self) -> None:
        """Ends; what is asked from now on is answered no more."""
        await self._loop_watch.stop()
        if self._pulse is not None:
            await self._endpoint.stop()
            await self._pulse.stop()

    def _note(self, trouble: str) -> None:
        """Note in the database what is wrong, while the loop cannot. Blocks; from any thread."""
        if worker := self._health.worker_id:
            note = fleet.note_trouble(worker, storable(trouble))
            try:
                run_once(self._target, note, _NOTED_WITHIN)
            except HeadwayError as error:
                log.debug("the blocked event loop could not be noted: %s", error)
