"""The sign that a worker's event loop runs. /livez and systemd depend on it."""

from __future__ import annotations

from headway.engine.health.state import Health, alive, is_well
from headway.engine.health.systemd import Systemd
from headway.engine.service import Service

_AT_LEAST_EVERY = 1.0
_TURNS_PER_LEASE = 5


class LoopLiveness(Service):
    """Runs a few times per lease and only notes the time. A blocked event loop cannot do that."""

    def __init__(self, health: Health, systemd: Systemd, serving: str) -> None:
        """`serving` is the status line that systemd shows for a ready worker."""
        super().__init__()
        self._health = health
        self._systemd = systemd
        self._serving = serving
        self._is_ready = False
        self._every = min(_AT_LEAST_EVERY, health.lease / _TURNS_PER_LEASE)
        if systemd.watchdog is not None:
            self._every = min(self._every, systemd.watchdog)
        health.begin(self)

    async def turn(self) -> float | None:
        vitals = self._health.vitals()
        if vitals.trusted and not self._is_ready:
            self._is_ready = True
            self._systemd.ready(self._serving)
        # The event loop runs this code, so it is not blocked. The heartbeat may be stuck.
        if self._systemd.watchdog is not None and is_well(alive(vitals)):
            self._systemd.alive()
        return self._every

    def draining(self) -> None:
        """The worker stops claiming."""
        self._systemd.stopping("draining")
