"""A queue is purged or transferred while others claim, settle and admit: nothing is lost or doubled."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from headway.store.documents import Settled
from headway.store.rows import Claim
from headway.store.statements import bulk, inspect, jobs
from tests.interleave.driver import Every, Step, begin, commit, does, rollback, says
from tests.store.store import Store, ask, new_job, shares, verdict

ENDS = {"commit": commit, "rollback": rollback}
_FIRST = UUID(int=0)


def _enqueue(store: Store, many: int, **fields: Any) -> list[str]:
    made = [new_job(**fields) for _ in range(many)]
    store.run(jobs.enqueue(store.target, made, store.now))
    return [job.id for job in made]


def _purges(store: Store) -> Step:
    return does(begin, says(lambda: bulk.purge(store.target, "q", None, store.now)(_FIRST, None)))


def _transfers(store: Store) -> Step:
    change = bulk.transfer(store.target, "q", "other", None, store.now)
    return does(begin, says(lambda: change(_FIRST, None)))


def _claims(store: Store, *queues: str) -> Step:
    worker, asked = store.register(), shares([ask(queue) for queue in queues], 9)
    return does(begin, says(lambda: jobs.claim(worker, asked, store.now)))


def _settles(store: Store, claim: Claim, kind: Any) -> Step:
    settled = [Settled(claim, verdict(kind))]
    if kind == "succeed":
        return does(begin, says(lambda: jobs.finish(store.target, settled, store.now)))
    return does(begin, says(lambda: jobs.requeue(store.target, 0, settled, store.now)))


def _states(store: Store, ids: list[str]) -> Counter[str]:
    found = [store.states(job_id) for job_id in ids]
    assert all(len(states) == 1 for states in found), "lost, or in two places"
    return Counter(states[0] for states in found)


def _agrees(store: Store, states: Counter[str]) -> None:
    """The counts of the queues are those of their rows."""
    told = Counter[str]()
    for queue in store.run(inspect.metrics(None, store.now)):
        for state in ("ready", "running", "blocked", "succeeded", "cancelled"):
            told[state] += getattr(queue, state)
    assert +told == +states


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "end"), [("succeed", "commit"), ("retry", "commit"), ("retry", "rollback")]
)
def test_a_job_is_purged_or_claimed_or_comes_back(
    store: Store, every: Every, kind: str, end: str
) -> None:
    ids: list[str] = []

    def setup() -> list[list[Step]]:
        store.clear()
        ids[:] = _enqueue(store, 1)
        (claim,) = store.claim(store.register())
        ids.extend(_enqueue(store, 2))
        return [
            [_purges(store), ENDS[end]],
            [_claims(store, "q"), commit],
            [_settles(store, claim, kind), commit],
        ]

    def after(answers: list[list[Any]]) -> None:
        (purged, _), (claimed, _), _ = answers
        states = _states(store, ids)
        assert states["cancelled"] == (purged.changed if end == "commit" else 0)
        assert states["running"] == len(claimed)
        assert states["succeeded"] == (kind == "succeed")
        assert not {one.id for one in claimed} & {
            str(row["id"]) for row in store.rows("select id from archive where state = 'c'")
        }
        _agrees(store, states)
        store.run(bulk.purge(store.target, "q", None, store.now)(_FIRST, None))
        assert _states(store, ids)["ready"] == 0, "what changed hands is found by the next look"

    assert every.order(setup, after) >= 90


def test_room_of_a_purged_holder_is_given_once(store: Store, every: Every) -> None:
    """While somebody looks at the line; the purge rings, and the next look is behind it."""
    ids: list[str] = []

    def admits() -> list[Step]:
        lock = does(begin, says(lambda: jobs.lock_keys(["k"])))
        return [lock, says(lambda: jobs.admit(store.target, ["k"], store.now)), commit]

    with store.listening() as heard:

        def setup() -> list[list[Step]]:
            store.clear()
            ids[:] = _enqueue(store, 1, key="k", key_limit=1)
            ids.extend(_enqueue(store, 2, key="k", key_limit=1, queue="other"))
            assert store.admit("k") == 1
            heard()
            return [[_purges(store), commit], admits()]

        def within() -> None:
            assert store.one("select count(*) as n from job where holds")["n"] <= 1

        def after(_: object) -> None:
            assert f"room {ids[0]}" in heard()
            store.admit("k")
            assert [str(row["id"]) for row in store.rows("select id from job where holds")] == [
                ids[1]
            ]
            assert _states(store, ids) == {"cancelled": 1, "ready": 1, "blocked": 1}

        every.order(setup, after, within)


@pytest.mark.parametrize("end", ENDS)
def test_a_job_that_is_transferred_is_claimed_once_in_the_one_queue_or_the_other(
    store: Store, every: Every, end: str
) -> None:
    ids: list[str] = []

    def setup() -> list[list[Step]]:
        store.clear()
        ids[:] = _enqueue(store, 3)
        return [
            [_transfers(store), ENDS[end]],
            [_claims(store, "q"), commit],
            [_claims(store, "other"), commit],
        ]

    def after(answers: list[list[Any]]) -> None:
        _, (here, _), (there, _) = answers
        got = [*here, *there]
        got += store.claim(store.register(), ask("q"), ask("other"))
        assert sorted(one.id for one in got) == sorted(ids), "lost, or claimed twice"
        assert [one.id for one in there] in ([], ids), "they kept their order"
        assert not there or end == "commit"

    assert every.order(setup, after) >= 90


def test_a_job_is_purged_or_transferred(store: Store, every: Every) -> None:
    ids: list[str] = []

    def setup() -> list[list[Step]]:
        store.clear()
        ids[:] = _enqueue(store, 3)
        return [[_purges(store), commit], [_transfers(store), commit]]

    def after(answers: list[list[Any]]) -> None:
        (purged, _), (moved, _) = answers
        assert purged.changed + moved.changed == 3
        states = _states(store, ids)
        assert states == +Counter(cancelled=purged.changed, ready=moved.changed)
        _agrees(store, states)

    every.order(setup, after)
