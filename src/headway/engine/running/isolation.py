"""Suspects, each alone in a child process of its own.

A job that was running when its process died is a suspect: one of them may have killed it. A suspect that
kills its child harms nobody else, and is found guilty by that. Any job can run there, whatever its
executor: the child builds what a worker builds around a handler (`isolated_child.py`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler
from typing import Any

from headway.core.clock import Clock
from headway.core.definition import Definition
from headway.core.verdict import Outcome
from headway.engine.running.child import Prepare
from headway.engine.running.invoke import Overrides
from headway.engine.running.isolated_child import Surroundings, serve
from headway.engine.running.job import Running
from headway.engine.running.processes import Child, Children, reporting, request_for
from headway.engine.running.replies import Message, outcome_in
from headway.engine.running.transactional import Booked
from headway.store.connect import Target
from headway.store.documents import Settled

log = logging.getLogger("headway.worker")


class Isolation:
    """At most `most` children, each with one suspect at a time. They are kept for the next one."""

    def __init__(
        self,
        target: Target,
        *,
        most: int,
        max_result: int,
        prepare: Prepare,
        clock: Clock,
        overrides: Overrides,
        worker: Callable[[], int],
        hand_on: Callable[[str], None],
    ) -> None:
        """`worker` says under which id jobs are claimed; `hand_on` is told of each key under which
        a child has freed room, as in `Books`."""
        self.most = most
        self._worker = worker
        self._children = Children(most, self._start)
        self._target = target
        self._max_result = max_result
        self._prepare = prepare
        self._clock = clock
        self._overrides = overrides
        self._hand_on = hand_on
        self._has_warned = False

    @property
    def free(self) -> int:
        """How many more suspects could run now."""
        return self._children.free

    def can_run(self, definition: Definition) -> bool:
        """Return whether a child could find this definition."""
        if self._prepare.loads_app:
            return True
        in_main = definition.function.__module__ == "__main__"
        return definition.is_importable() and (not in_main or _children_import_main())

    async def outcome(
        self,
        running: Running,
        started: Callable[[], None],
        note: Callable[[dict[str, Any]], None],
    ) -> Outcome | Booked:
        """Return the outcome of an attempt in a child. Cancelling it kills the child.

        `started` is called when the child has imported the app and begins. If the child dies after
        that, the outcome is `Broke` with PROCESS_DIED.
        """
        report = reporting(started, note)

        def heard(message: Message) -> None:
            if message.settling:
                running.settling = True
                if running.timer is not None:
                    running.timer.cancel()
            report(message)

        request = request_for(running.definition, running.claim, running.timeout)
        request = replace(request, worker=self._worker(), now=self._clock.now())
        outcome = outcome_in(await self._children.ask(request, heard))
        if isinstance(outcome, Booked):
            for key in Settled(running.claim, outcome.verdict).touched_keys:
                self._hand_on(key)
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
                "%d of dependency_overrides cannot be sent to the process of an isolated job, which "
                "gets the dependencies themselves; override with functions at the top of a module",
                len(self._overrides) - len(overrides),
            )
        return Child(serve, Surroundings(self._target, self._max_result, overrides, self._prepare))


def _can_be_sent(value: object) -> bool:
    try:
        ForkingPickler.dumps(value)
    except Exception:
        return False
    return True


def _children_import_main() -> bool:
    """Return whether a spawned process imports the main module: not that of an interactive session."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return not spec.name.endswith("__main__")
    return getattr(main, "__file__", None) is not None
