"""Observers of a worker outside its loop: HTTP clients, systemd, and the watch over the loop."""

from __future__ import annotations

from collections.abc import Sequence

from headway.core.address import parse_address
from headway.core.clock import Clock
from headway.engine.health.endpoint import Endpoint
from headway.engine.health.liveness import LoopLiveness
from headway.engine.health.loop_watch import LoopWatch
from headway.engine.health.state import Health, storable
from headway.engine.health.systemd import Systemd
from headway.engine.service import log
from headway.errors import HeadwayError
from headway.store.connections.connect import Target
from headway.store.connections.once import run_once
from headway.store.statements import fleet

_NOTED_WITHIN = 5.0


class Observers:
    """Starts and stops the observers. The watch over the event loop always runs."""

    def __init__(
        self, health: Health, target: Target, clock: Clock, max_wait: float | None
    ) -> None:
        """`max_wait` is how long a ready job may wait before /readyz mentions it."""
        self._health = health
        self._target = target
        self._systemd = Systemd()
        self._loop_watch = LoopWatch(health.running, lease=health.lease, note=self._note)
        self._endpoint = Endpoint(health, target, clock, max_wait)
        self._liveness: LoopLiveness | None = None

    def start(self, address: str | int | None, process: int, queues: Sequence[str]) -> None:
        """Start. The endpoint, if there is one, listens `process` ports after `address`."""
        self._health.loop_watch = self._loop_watch
        self._loop_watch.start()
        if address is None and not self._systemd.expects:
            return
        self._liveness = LoopLiveness(self._health, self._systemd, f"serving {', '.join(queues)}")
        if address is not None:
            self._endpoint.start(parse_address(address).next(process))
        self._liveness.start()

    def look(self) -> None:
        """Check the worker's state soon, because it may have changed."""
        if self._liveness is not None:
            self._liveness.wake()

    def draining(self) -> None:
        """Report that the worker stops claiming."""
        self._health.draining = True
        if self._liveness is not None:
            self._liveness.draining()

    async def stop(self) -> None:
        """Stop. Later requests get no answer."""
        await self._loop_watch.stop()
        if self._liveness is not None:
            await self._endpoint.stop()
            await self._liveness.stop()

    def _note(self, trouble: str) -> None:
        """Write a problem to the database while the loop cannot. This blocks; any thread may call it."""
        if worker := self._health.worker_id:
            note = fleet.note_trouble(worker, storable(trouble))
            try:
                run_once(self._target, note, _NOTED_WITHIN)
            except HeadwayError as error:
                log.debug(
                    "could not write to the database that the event loop is blocked: %s", error
                )
