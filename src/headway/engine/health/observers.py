"""Whoever looks at a worker from outside: clients of its HTTP endpoint, and systemd."""

from __future__ import annotations

from collections.abc import Sequence

from headway.core.address import parse_address
from headway.core.clock import Clock
from headway.engine.health.endpoint import Endpoint
from headway.engine.health.pulse import Pulse
from headway.engine.health.state import Health
from headway.engine.health.systemd import Systemd
from headway.store.connect import Target


class Observers:
    """Serves those that are there; where nobody looks, nothing is done."""

    def __init__(
        self, health: Health, target: Target, clock: Clock, max_wait: float | None
    ) -> None:
        """`max_wait` is how long a ready job may wait before /readyz mentions it."""
        self._health = health
        self._systemd = Systemd()
        self._endpoint = Endpoint(health, target, clock, max_wait)
        self._pulse: Pulse | None = None

    def start(self, address: str | int | None, process: int, queues: Sequence[str]) -> None:
        """Begins; with the endpoint `process` ports after `address`, if there is one."""
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
        if self._pulse is not None:
            await self._endpoint.stop()
            await self._pulse.stop()
