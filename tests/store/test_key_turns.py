"""Turns of keys: a bounded number of each is ready at a time, however high its limit."""

from __future__ import annotations

import pytest

from headway.store.statements import jobs
from tests.store.store import TASK, Store, ask


@pytest.mark.parametrize("limit", [100, 0])
def test_of_a_key_no_more_are_ready_than_a_turn_has_however_high_its_limit(
    store: Store, worker: int, limit: int
) -> None:
    """A start lets the next in, up to the limit; 0 is a limit by key of which nothing is said."""
    for _ in range(150):
        store.enqueue(key="k", key_limit=limit)
    assert [store.admit("k"), store.admit("k")] == [32, 0]
    assert store.run(jobs.lines("", 9, store.now)) == [("k", False, None)]
    started = store.claim(worker, ask(room=10))
    assert all(one.opens for one in started)
    assert store.run(jobs.lines("", 9, store.now)) == [("k", True, None)]
    assert [store.admit("k"), store.admit("k")] == [10, 0]
    for _ in range(9):
        store.claim(worker)
        store.admit("k")
    running = store.one("select count(*) as n from job where state = 'x'")["n"]
    assert running == (limit or 150)


def test_a_start_under_a_low_limit_admits_nothing(store: Store, worker: int) -> None:
    store.limit(TASK, "keys", concurrency=32)
    for key, limit in (("a", 1), ("b", 32), (f"{TASK}/c", 0)):
        store.enqueue(key=key, key_limit=limit)
    store.enqueue()
    store.admit()
    assert [one.opens for one in store.claim(worker)] == [False] * 4
