"""G9: what a claim and a settling read does not grow with what waits, nor with what lies dead.

Counted in rows and blocks, as the server counts them; nothing here is a timing.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from headway.store.statements import jobs
from headway.store.statements.jobs import Settled
from tests.store.plan import measure
from tests.store.store import Store, ask, new_job, shares, verdict

_MANY = 5_000
_ROOM = 10


@pytest.fixture
def store(own_store: Store) -> Store:
    return own_store


def _enqueue(store: Store, count: int, **fields: Any) -> None:
    made = [new_job(**fields) for _ in range(count)]
    assert store.run(jobs.enqueue(store.quiet, made, store.now)) == {}


def _read_by_a_claim(store: Store, worker: int, cursor: int = 0) -> int:
    """The blocks that a claim of a few reads on its way to them."""
    asks = [ask(priority=priority, cursor=cursor) for priority in (2, 1, 0)]
    idle = jobs.claim(0, shares(asks, _ROOM), store.now)
    nodes = measure(store, jobs.claim(worker, shares(asks, _ROOM), store.now), idle)
    assert nodes[0]["Actual Rows"] == _ROOM
    return _blocks([node for node in nodes if node.get("Index Name") == "job_ready"])


def _blocks(nodes: list[dict[str, Any]]) -> int:
    return sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in nodes)


def _newest(store: Store) -> int:
    return store.run(jobs.lanes(["q"])).newest


def test_g9_claiming_costs_the_same_however_many_wait(store: Store) -> None:
    worker = store.register()
    _enqueue(store, _ROOM)
    few = _read_by_a_claim(store, worker)
    _enqueue(store, _MANY)
    _enqueue(store, _MANY, delay=60.0)
    assert _read_by_a_claim(store, worker) <= few + 6, "the index is a level deeper, for each lane"


def test_g9_a_claim_reads_as_many_ready_jobs_as_it_takes(store: Store) -> None:
    worker = store.register()
    for priority in (0, 1, 2):
        _enqueue(store, 1_000, priority=priority)
    store.eyes.execute("analyze job")
    asks = [ask(priority=priority) for priority in (2, 1, 0)]
    idle = jobs.claim(0, shares(asks, _ROOM), store.now)
    nodes = measure(store, jobs.claim(worker, shares(asks, _ROOM), store.now), idle)
    read = sum(
        node["Actual Rows"] * node["Actual Loops"]
        for node in nodes
        if node.get("Index Name") == "job_ready"
    )
    assert read == _ROOM
    claims = store.claim(worker, *asks, room=_ROOM)
    assert {claim.priority for claim in claims} == {2}, "the highest lane first, on full tables too"
    assert len({claim.seq for claim in claims}) == _ROOM
    assert max(claim.seq for claim in claims) - min(claim.seq for claim in claims) == _ROOM - 1


def test_g9_a_claim_does_not_walk_dead_rows_before_its_cursor(store: Store) -> None:
    """Another session holds a snapshot open, so nothing that was settled can be cleaned away."""
    worker = store.register()
    with psycopg.connect(store.dsn) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute(f"select count(*) from {store.schema}.job")
        _enqueue(store, _MANY)
        claims = store.claim(worker, ask(room=_MANY), room=_MANY)
        assert len(claims) == _MANY
        settled = [Settled(claim, verdict("succeed")) for claim in claims]
        assert store.run(jobs.finish(store.quiet, settled, store.now)) == {}
        cursor = _newest(store)
        _enqueue(store, _ROOM)
        from_the_start = _read_by_a_claim(store, worker, 0)
        behind = _read_by_a_claim(store, worker, cursor)
    assert from_the_start > 50, "it did walk them all"
    assert behind <= 15


def test_g9_settling_costs_the_same_however_many_lie_dead(store: Store) -> None:
    worker = store.register()
    with psycopg.connect(store.dsn) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute(f"select count(*) from {store.schema}.job")
        _enqueue(store, _MANY)
        claims = store.claim(worker, ask(room=_MANY), room=_MANY)
        settled = [Settled(claim, verdict("succeed")) for claim in claims]
        store.run(jobs.finish(store.quiet, settled[_ROOM:], store.now))
        finish = jobs.finish(store.quiet, settled[:_ROOM], store.now)
        nodes = measure(store, finish, jobs.finish(store.quiet, [], store.now))
    found = [node for node in nodes if node.get("Index Name") == "job_pkey"]
    assert _blocks(found) <= 6 * _ROOM, "down the index and to the row, for each"
