"""Jobs whose process died while they ran: one of them may have killed it, and nobody knows which (G6).

A suspect runs in isolation, in a child process of its own. If that dies, the job is guilty; if the
attempt ends in any other way, the job is cleared. A suspect that no child can run (its code cannot
be imported there) runs in the worker while nothing else does, so that a crash is charged to it alone.

Suspects that cannot run now go back for a while. They must not wait here: if this worker crashed
meanwhile, they would be charged for it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sized

from headway.core.verdict import Broke, Verdict
from headway.engine.running.isolation import Isolation
from headway.engine.running.job import Running

log = logging.getLogger("headway.worker")

_QUIET_WITHIN = 60.0
_AGAIN = (1.0, 5.0)


def later() -> Verdict:
    """Return the verdict that gives a job back for some seconds, as it was."""
    return Verdict("release", delay=random.uniform(*_AGAIN))


class Suspects:
    """Decides how each suspect runs, and how many run at once."""

    def __init__(self, isolation: Isolation) -> None:
        self._isolation = isolation
        self._isolated = 0
        self._alone: Running | None = None
        self._fewer = asyncio.Event()
        self._refused = set[str]()
        """Handlers that a child could not run after all."""

    @property
    def needs_quiet(self) -> bool:
        """Whether nothing else is to be claimed, because a suspect is to run alone in this worker."""
        return self._alone is not None

    def take(self, running: Running) -> bool:
        """Choose how a suspect runs. Returns false if it cannot run now."""
        definition = running.definition
        if definition.executor == "process":
            return True  # it runs in a process of its own anyway
        if definition.handler not in self._refused and self._isolation.can_run(definition):
            if self._isolated >= self._isolation.most:
                return False
            self._isolated += 1
            running.isolated = True
            return True
        if self._alone is not None:
            return False
        self._alone = running
        running.alone = True
        return True

    async def quiet(self, suspect: Running, running: Sized) -> bool:
        """Return true when the suspect is the only job that is `running` here, false if that takes
        too long."""
        try:
            async with asyncio.timeout(_QUIET_WITHIN):
                while len(running) > 1 and suspect.reason is None:
                    self._fewer.clear()
                    await self._fewer.wait()
        except (TimeoutError, asyncio.CancelledError):
            return False
        return suspect.reason is None

    def refuse(self, running: Running, outcome: Broke) -> None:
        """No child could run this suspect: its handler runs alone in this worker from now on."""
        handler = running.definition.handler
        self._refused.add(handler)
        log.error(
            "%s %s cannot run in a process of its own, and will run alone in a worker: %s",
            handler,
            running.claim.id,
            outcome.error.get("message"),
            extra={"job_id": running.claim.id, "task": running.claim.task},
        )

    def ended(self, running: Running) -> None:
        """A job has ended here, suspect or not."""
        self._fewer.set()
        if running.isolated:
            self._isolated -= 1
        if self._alone is running:
            self._alone = None

    def close(self) -> None:
        self._isolation.close()
