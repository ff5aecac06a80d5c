"""A claim, a pause and a scan at once: no job has room twice."""

from __future__ import annotations

from typing import Any

import pytest

from headway.store.statement import Statement
from headway.store.statements import controls, jobs
from tests.interleave.driver import Every, Step, begin, commit, does, says
from tests.interleave.line import KEY, Line
from tests.store.store import Store, ask, shares


@pytest.mark.parametrize("limit", [1, 2])
def test_a_job_that_is_being_claimed_keeps_its_room(store: Store, every: Every, limit: int) -> None:
    """A claim and a pause of its queue at once, and a scan that finds other jobs of the key."""
    line = Line(store, limit=limit)
    worker: list[int] = []

    def looks() -> list[Step]:
        lock, admit, end = line.admits()
        unadmit = says(lambda: jobs.unadmit([KEY], store.now))
        return [does(lock, unadmit), admit, end]

    def pauses() -> Statement[Any]:
        said: dict[str, Any] = {"actor": None, "reason": None, "until": None, "now": store.now}
        return controls.pause(store.target, "queue", "q", **said)

    def setup() -> list[list[Step]]:
        line.make(running=0, blocked=3)
        for _ in range(3):
            store.enqueue(queue="open", key=KEY, key_limit=limit)
        worker[:] = [store.register()]
        claim = says(lambda: jobs.claim(worker[0], shares([ask()], 1), store.now))
        return [[does(begin, claim), commit], line.alone(pauses), looks()]

    def after(answers: list[list[Any]]) -> None:
        running = store.rows("select id::text, queue from job where state = 'x'")
        assert {row["id"] for row in running} == {claim.id for claim in answers[0][0]}
        line.admit()
        line.is_used_up()

    assert every.order(setup, after, line.within_the_limit) >= 90
