"""Suspects: jobs whose process died while they ran. Any one of them may have killed it (G6).

A suspect runs in isolation, in a child process. If the child dies, the job is guilty. If the attempt ends
in any other way, the job is cleared. If a child cannot import its code, the suspect runs in the worker
while no other job does, so that a crash is charged to it alone.

Suspects that cannot run now go back to the queue for a while. They must not wait here: they would be
charged if this worker crashed meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sized

from headway.core.verdict import Broke, Verdict
from headway.engine.running.isolation import Isolation
from headway.engine.running.job import RunningJob

log = logging.getLogger("headway.worker")

_QUIET_WITHIN = 60.0
_AGAIN = (1.0, 5.0)


def later() -> Verdict:
    """Return the verdict that gives a job back unchanged for some seconds."""
    return Verdict("release", delay=random.uniform(*_AGAIN))


class Suspects:
    """Decides how each suspect runs, and how many run at once."""

    def __init__(self, isolation: Isolation) -> None:
        self._isolation = isolation
        self._isolated = 0
        self._alone: RunningJob | None = None
        self._fewer = asyncio.Event()
        self._refused = set[str]()
        """Handlers that a child failed to run."""

    @property
    def needs_quiet(self) -> bool:
        """Whether the worker must not claim, because a suspect needs to run alone in it."""
        return self._alone is not None

    def take(self, running: RunningJob) -> bool:
        """Choose how a suspect runs. Return false if it cannot run now."""
        definition = running.definition
        if definition.executor == "process":
            return True  # it runs in a separate process anyway
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

    async def quiet(self, suspect: RunningJob, running: Sized) -> bool:
        """Wait until the suspect is the only job that is `running` here. Return false if that fails.

        It fails after a time limit, or if the suspect must stop.
        """
        try:
            async with asyncio.timeout(_QUIET_WITHIN):
                while len(running) > 1 and suspect.reason is None:
                    self._fewer.clear()
                    await self._fewer.wait()
        except (TimeoutError, asyncio.CancelledError):
            return False
        return suspect.reason is None

    def refuse(self, running: RunningJob, outcome: Broke) -> None:
        """Record that a child could not run this suspect. Its handler runs alone in this worker now."""
        handler = running.definition.handler
        self._refused.add(handler)
        log.error(
            "%s %s cannot run in a separate process and will run alone in a worker: %s",
            handler,
            running.claim.id,
            outcome.error.get("message"),
            extra={"job_id": running.claim.id, "task": running.claim.task},
        )

    def ended(self, running: RunningJob) -> None:
        """Record that a job has ended here, suspect or not."""
        self._fewer.set()
        if running.isolated:
            self._isolated -= 1
        if self._alone is running:
            self._alone = None

    def close(self) -> None:
        self._isolation.close()
