"""Rates: tokens of queues and tasks, as the database keeps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from headway.store.statements import controls, jobs
from tests.limits.by_hand import alone, claim, reset
from tests.limits.record import assert_within
from tests.store.store import NOW, TASK, Store, engine_connection
from tests.support import eventually_sync

KEY = f"{TASK}/acme"


def _claims(store: Store, kind: str) -> Callable[[], int]:
    """A function that claims what it can under a limit of this kind; how many that were."""
    worker = store.register(lease=10_000)
    if kind == "queue":
        return lambda: len(claim(store, worker))
    return lambda: len(claim(store, worker, alone(), tasks=[TASK]))


@pytest.mark.parametrize("kind", ["queue", "task"])
def test_a_burst_and_then_one_for_each_token(store: Store, kind: str) -> None:
    take = _claims(store, kind)
    for _ in range(30):
        store.enqueue()
    store.limit("q" if kind == "queue" else TASK, kind, rate="2/s", burst=4)  # type: ignore[arg-type]
    assert [take(), take()] == [4, 0]
    store.advance(0.499)
    assert take() == 0
    store.advance(0.001)
    assert [take(), take()] == [1, 0]
    store.advance(1.25)
    assert take() == 2
    store.advance(0.25)
    assert take() == 1, "half a token was not lost"
    store.advance(3600)
    assert [take(), take()] == [4, 0], "a rest earns no more than a burst"


def test_in_any_window_no_more_start_than_it_earns_and_a_burst(store: Store) -> None:
    """At a hundred moments that have nothing to do with the rate."""
    take = _claims(store, "queue")
    for _ in range(200):
        store.enqueue()
    rate, burst = 7.0, 3
    store.limit("q", rate="7/s", burst=burst)
    for number in range(100):
        take()
        store.advance((number * 37 % 101) / 1000)
    query = (
        "select extract(epoch from claimed_at)::float8 as at from job where state = 'x' order by 1"
    )
    starts = [row["at"] for row in store.rows(query)]
    assert_within(starts, rate, burst)
    whole = starts[-1] - starts[0]
    assert len(starts) >= burst + rate * whole - 1.01, "nor are tokens lost"


def test_the_lock_says_when_the_next_token_comes(store: Store, worker: int) -> None:
    for _ in range(9):
        store.enqueue()
    store.limit("q", rate="2/s", burst=3)
    (limit,) = store.run(controls.lock(["q"], [], store.now))
    assert [limit.token_in(taken) for taken in (0, 2, 3, 4)] == [0.0, 0.0, 0.5, 1.0]
    assert len(claim(store, worker)) == 3
    (limit,) = store.run(controls.lock(["q"], [], store.now))
    assert limit.token_in(0) == 0.5
    store.advance(0.2)
    (limit,) = store.run(controls.lock(["q"], [], store.now))
    assert limit.token_in(0) == pytest.approx(0.3)
    store.limit("q", concurrency=3)
    (limit,) = store.run(controls.lock(["q"], [], store.now))
    assert limit.token_in(0) is None


def test_a_claim_that_is_rolled_back_gives_its_tokens_back(store: Store, worker: int) -> None:
    for _ in range(9):
        store.enqueue()
    store.limit("q", rate="1/min", burst=2)
    with engine_connection(store.dsn) as other, other.transaction():
        assert len(claim(store, worker, conn=other)) == 2
        raise psycopg.Rollback
    assert store.spent_until("q") is None
    assert len(claim(store, worker)) == 2
    assert ((store.spent_until("q") or NOW) - NOW).total_seconds() == 120
    assert claim(store, worker) == []


def test_a_connection_that_is_cut_in_the_middle_of_a_claim_spends_nothing(
    store: Store, worker: int
) -> None:
    store.enqueue()
    store.limit("q", rate="1/h", burst=1)
    other = engine_connection(store.dsn)
    other.execute("begin")
    assert len(claim(store, worker, conn=other)) == 1
    store.rows("select pg_terminate_backend(%s)", other.info.backend_pid)
    # The server needs a moment to notice, and until then the limit is not to be had.
    eventually_sync(lambda: claim(store, worker))
    other.close()
    assert ((store.spent_until("q") or NOW) - NOW).total_seconds() == 3600


def test_every_start_takes_a_token_also_one_after_a_crash(store: Store) -> None:
    dead = store.register(lease=1)
    store.enqueue()
    store.limit("q", rate="1/min", burst=1)
    assert len(claim(store, dead)) == 1
    store.advance(2)
    store.rescue()
    store.advance(1)
    assert store.run(jobs.promote(store.target, None, 9, store.now)).count == 1
    store.advance(-1)
    worker = store.register(lease=1_000)
    assert claim(store, worker) == []
    store.advance(58)
    assert len(claim(store, worker)) == 1
    assert claim(store, worker) == []


def test_two_limits_give_what_both_have(store: Store) -> None:
    for _ in range(9):
        store.enqueue()
    worker = store.register(lease=10_000)
    store.limit("q", rate="1/s", burst=3)
    store.limit(TASK, "task", rate="1/min", burst=2)
    assert len(claim(store, worker, alone(), tasks=[TASK])) == 2
    assert ((store.spent_until("q") or NOW) - NOW).total_seconds() == 2
    assert ((store.spent_until(TASK, "task") or NOW) - NOW).total_seconds() == 120
    store.limit(TASK, "task", concurrency=5)
    store.advance(60)
    assert len(claim(store, worker, alone(), tasks=[TASK])) == 3


def test_another_rate_begins_with_all_its_tokens(store: Store, worker: int) -> None:
    for _ in range(9):
        store.enqueue()
    store.limit("q", rate="1/h", burst=1)
    assert len(claim(store, worker)) == 1
    store.limit("q", rate="1/h", burst=1, concurrency=9)
    assert claim(store, worker) == [], "the rate is the same"
    store.limit("q", rate="1/min", burst=2)
    assert len(claim(store, worker)) == 2


@pytest.mark.parametrize("kind", ["queue", "task"])
def test_going_back_to_the_same_rate_gives_no_tokens(store: Store, kind: Any) -> None:
    """As setting the same one does not."""
    take, name = _claims(store, kind), "q" if kind == "queue" else TASK
    for _ in range(9):
        store.enqueue()
    store.limit(name, kind, rate="1/h", burst=2)
    assert take() == 2
    store.eyes.execute("update control set declared = '{\"rate\": %s}'" % (1 / 3600))
    store.eyes.execute("update control set declared = declared || '{\"burst\": 2}'")
    assert reset(store, name, kind) is True
    assert take() == 0
