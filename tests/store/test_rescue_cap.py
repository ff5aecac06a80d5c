"""The back-off of a job whose workers crash again and again."""

from __future__ import annotations

from tests.store.store import Store


def test_the_back_off_has_a_cap_and_no_job_keeps_the_rescue_from_others(store: Store) -> None:
    """It used to double without end, until it was no interval any more: no job was rescued then."""
    worker = store.register()
    often = store.held(worker, options={"retry": {"max_crashes": 1000}})
    other = store.held(worker)
    store.eyes.execute("update job set crashes = 998 where id = %s", (often.id,))
    store.advance(31)
    assert store.rescue() == (2, 0)
    waits = [(store.row(one.id)["run_at"] - store.now).total_seconds() for one in (often, other)]
    assert 32 <= waits[0] <= 64
    assert 0.5 <= waits[1] <= 1
