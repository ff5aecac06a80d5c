"""Random commands against PostgreSQL and against a small model; after each, all must agree.

Time is a parameter, so an example says the same every time, and an ordinary run has the same few every
time. `HEADWAY_MODEL_EXAMPLES=5000` runs that many others, and makes one that fails as short as it can.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from headway.core.retry import Retry
from headway.core.state import State
from headway.core.verdict import Raised, Returned
from headway.errors import Fatal, Snooze
from tests.model.job import NO_LINE
from tests.model.machine import LINES, Heard, moved
from tests.model.troubled import Troubled
from tests.store.store import Store

_GIVEN = os.environ.get("HEADWAY_MODEL_EXAMPLES")
_EXAMPLES = int(_GIVEN or "60")
_PHASES = (Phase.generate,) if _GIVEN is None else (Phase.generate, Phase.shrink)


@pytest.mark.slow
@pytest.mark.timeout(0 if _EXAMPLES > 100 else 900)
def test_postgresql_and_the_model_agree_whatever_happens(store: Store, heard: Heard) -> None:
    """I1 to I9 hold after every command, and with them G2, G3, G6, G7 and G11."""
    run_state_machine_as_test(
        lambda: Troubled(store, heard),
        settings=settings(
            max_examples=_EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            database=None,
            phases=_PHASES,
            derandomize=_GIVEN is None,
            print_blob=True,
        ),
    )


def test_the_commands_reach_every_state_that_they_can(store: Store, heard: Heard) -> None:
    """One example by hand, so that the random ones are known not to walk in circles."""
    machine = Troubled(store, heard)
    seen: set[str] = set()

    def then(command: Callable[..., Any], *given: Any) -> list[Any]:
        answer = command(*given)
        machine.agree()
        seen.update(job.state.label for job in machine.model.jobs.values())
        return list(getattr(answer, "values", ()))

    first, second, third = then(machine.begin)
    (later,) = then(machine.enqueue, "b", 5, 10.0, 25.0, 1, 1, NO_LINE)
    then(machine.work, 0, [(Returned(b"1"), Retry()), (Raised(Fatal("no")), Retry())])
    then(machine.cancel, third)
    then(machine.note_progress, machine.pair.current[third])
    then(machine.crash, 0)
    then(machine.retry, second)
    (claim,) = then(machine.claim, 1, False, 1, 1, "a", False)
    then(machine.settle_any, machine.pair.current[first], (Returned(b"2"), Retry()))
    then(machine.lose, 1)
    then(machine.rescue)
    then(machine.settle_any, claim, (Raised(Snooze(5)), Retry()))
    then(machine.pause, ("queue", "b"), None)
    then(machine.wait, 10.0)
    then(machine.promote)
    then(machine.heartbeat, 0)
    then(machine.wait, 20.0)
    then(machine.expire)
    assert machine.model.jobs[later].state is State.EXPIRED
    then(machine.work, 0, [(Returned(b"4"), Retry())] * 5)

    in_order = LINES[-1]
    one, two = then(machine.enqueue, "a", 0, None, None, 1, 2, in_order)
    then(machine.admit_all)
    then(machine.work, 1, [(moved("mail", 15.0, in_order), Retry())])
    assert machine.model.jobs[one].holds
    assert machine.model.jobs[two].state is State.BLOCKED
    then(machine.edit, two, 7)
    then(machine.wait, 20.0)
    then(machine.promote)
    then(machine.work, 1, [(Returned(b"3"), Retry())])
    assert machine.model.jobs[one].state is State.SUCCEEDED
    assert machine.model.jobs[two].state is State.READY

    (kept,) = then(machine.enqueue_unique, "b", 0, 10.0, NO_LINE, ["u1"], "skip", False)
    assert not then(machine.enqueue_unique, "a", 5, None, NO_LINE, ["u1", "u1"], "replace", True)
    assert machine.model.jobs[kept].lane == ("a", 5)
    assert not then(machine.enqueue_unique, "a", 5, None, NO_LINE, ["u1"], "reject", True)
    assert len(then(machine.enqueue_for_a_while, ["u1", "u2", "u1"], "skip")) == 2
    assert seen == {state.label for state in State} - {"waiting"}
