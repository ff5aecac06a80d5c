"""Runs suspects, each alone in a child process.

A job that was running when its process died is a suspect: it may have killed the process. A suspect that
kills its child harms no other job, and that proves its guilt. Any job can run there, whatever its
executor: the child sets up a handler as a worker does (`isolated_child.py`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler

from headway.core.clock import Clock
from headway.core.definition import Definition
from headway.core.verdict import Outcome
from headway.engine.registration import Registration
from headway.engine.running.child import Prepare
from headway.engine.running.child_messages import Message, outcome_in
from headway.engine.running.invoke import Overrides
from headway.engine.running.isolated_child import HandlerEnvironment, serve
from headway.engine.running.job import AttemptEvents, RunningJob
from headway.engine.running.processes import Child, Children, reporting, request_for
from headway.engine.running.transactional import SettledInTransaction
from headway.store.connections.connect import Target
from headway.store.documents import Settled

log = logging.getLogger("headway.worker")


class Isolation:
    """At most `most` children, each with one suspect at a time. A child is kept for the next one.

    With a `most` of 0 suspects run in the worker, alone.
    """

    def __init__(
        self,
        target: Target,
        *,
        most: int,
        max_result: int,
        prepare: Prepare,
        clock: Clock,
        overrides: Overrides,
        registration: Registration,
        freed: Callable[[str], None],
    ) -> None:
        """`freed` is called with each key under which a job has freed room, or needs some."""
        self.most = most
        self._registration = registration
        self._children = Children(max(most, 1), self._start)
        self._target = target
        self._max_result = max_result
        self._prepare = prepare
        self._clock = clock
        self._overrides = overrides
        self._freed = freed
        self._has_warned = False

    @property
    def free(self) -> int:
        """How many more suspects can run now."""
        return self._children.free

    def can_run(self, definition: Definition) -> bool:
        """Return whether a child can find this definition."""
        if self.most == 0:
            return False
        if self._prepare.loads_app:
            return True
        in_main = definition.function.__module__ == "__main__"
        return definition.is_importable() and (not in_main or _children_import_main())

    async def outcome(
        self, running: RunningJob, events: AttemptEvents
    ) -> Outcome | SettledInTransaction:
        """Return the outcome of an attempt in a child. Cancelling it kills the child.

        The attempt has begun when the child has imported the app. If the child dies after that, the
        outcome is `Broke` with PROCESS_DIED.
        """
        report = reporting(events)

        def receive(message: Message) -> None:
            if message.settling:
                running.settling = True
                if running.timer is not None:
                    running.timer.cancel()
            report(message)

        request = request_for(running.definition, running.claim, running.timeout)
        request = replace(request, worker=self._registration.worker_id, now=self._clock.now())
        outcome = outcome_in(await self._children.ask(request, receive))
        if isinstance(outcome, SettledInTransaction):
            for key in Settled(running.claim, outcome.verdict).touched_keys:
                self._freed(key)
        return outcome

    def close(self) -> None:
        """Kill all children."""
        self._children.close()

    def _start(self) -> Child:
        overrides = {
            provider: other
            for provider, other in self._overrides.items()
            if _can_be_sent(provider) and _can_be_sent(other)
        }
        if len(overrides) < len(self._overrides) and not self._has_warned:
            self._has_warned = True
            log.warning(
                "%d of dependency_overrides cannot be sent to the process of an isolated job, which will "
                "use the original dependencies; override with functions at the top level of a module",
                len(self._overrides) - len(overrides),
            )
        environment = HandlerEnvironment(self._target, self._max_result, overrides, self._prepare)
        return Child(serve, environment)


def _can_be_sent(value: object) -> bool:
    try:
        ForkingPickler.dumps(value)
    except Exception:
        return False
    return True


def _children_import_main() -> bool:
    """Return whether a spawned process imports the main module. It cannot in an interactive session."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return not spec.name.endswith("__main__")
    return getattr(main, "__file__", None) is not None
