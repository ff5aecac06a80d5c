"""Random commands against PostgreSQL and against a small model; after each, all must agree.

Time is a parameter, so an example says the same every time. `HEADWAY_MODEL_EXAMPLES=5000` runs more
of them than the few of an ordinary run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from headway.store import migrate
from tests.model.machine import Machine
from tests.store.store import Store

_EXAMPLES = int(os.environ.get("HEADWAY_MODEL_EXAMPLES", "100"))


@pytest.fixture
def store(dsn: str) -> Iterator[Store]:
    """A schema for all examples; each begins by emptying it."""
    migrate.run_sync(dsn, "hw_model")
    store = Store(dsn, "hw_model")
    yield store
    store.eyes.execute("drop schema hw_model cascade")
    store.close()


@pytest.mark.slow
@pytest.mark.timeout(0 if _EXAMPLES > 100 else 180)
def test_postgresql_and_the_model_agree_whatever_happens(store: Store) -> None:
    """I1 to I8 hold after every command, and with them G2, G3, G6, G7 and G11."""
    seen = Counter[str]()

    class Counted(Machine):
        def teardown(self) -> None:
            seen.update(job.state.label for job in self.model.jobs.values())

    run_state_machine_as_test(
        lambda: Counted(store),
        settings=settings(
            max_examples=_EXAMPLES,
            stateful_step_count=50,
            deadline=None,
            database=None,
            print_blob=True,
        ),
    )
    missed = {"ready", "scheduled", "running", "succeeded", "failed", "cancelled", "expired"} - {
        *seen
    }
    assert not missed, f"no example ever came to {missed}: the commands no longer reach it"
