"""Rates of each key: starts take tokens, which are kept for ready jobs."""

from __future__ import annotations

import psycopg
import pytest

from headway import Limit
from headway.store.documents import Settled
from headway.store.rows import Admission, Claim
from headway.store.statements import fleet, jobs
from tests.limits.by_hand import declare, reset
from tests.limits.record import assert_within
from tests.store.store import TASK, Store, ask, engine_connection, shares, verdict

KEY = f"{TASK}/acme"


def _join(store: Store, count: int = 1, key: str = KEY) -> None:
    for _ in range(count):
        store.enqueue(key=key, key_limit=0)


def _each(store: Store, rate: str, burst: int, **more: int) -> None:
    declare(store, Limit(key=lambda n: str(n), rate=rate, burst=burst, **more))


def _start(store: Store, worker: int) -> int:
    """Admit all that may be admitted, and start all ready jobs. Return how many started."""
    store.admit()
    return len(store.claim(worker))


def test_each_key_has_tokens_of_its_own(store: Store) -> None:
    worker = store.register(lease=10_000)
    _each(store, "2/s", 2)
    _join(store, 9)
    _join(store, 1, f"{TASK}/zeta")
    assert [_start(store, worker), _start(store, worker)] == [3, 0]
    store.advance(0.499)
    assert _start(store, worker) == 0
    store.advance(0.001)
    assert [_start(store, worker), _start(store, worker)] == [1, 0]
    store.advance(60)
    assert [_start(store, worker), _start(store, worker)] == [2, 0]


@pytest.mark.parametrize("held_up", ["by no slot", "by a pause"])
def test_an_admitted_job_takes_its_token_when_it_starts(store: Store, held_up: str) -> None:
    """However long it was held up, no more start together than a burst."""
    worker = store.register(lease=10_000)
    _each(store, "1/s", 2)
    _join(store, 9)
    assert store.admit() == 2
    if held_up == "by a pause":
        store.pause("q")
        assert store.claim(worker) == []
    for _ in range(5):
        store.advance(10)
        assert store.admit() == 0, "a token is kept for each ready job, and there are no others"
    if held_up == "by a pause":
        store.resume("q")
    assert len(store.claim(worker)) == 2
    assert [_start(store, worker), _start(store, worker)] == [0, 0]
    store.advance(1)
    assert [_start(store, worker), _start(store, worker)] == [1, 0]


def test_in_any_window_no_more_of_a_key_start_than_it_earns_and_a_burst(store: Store) -> None:
    """At moments that have nothing to do with the rate, some for letting in and some for starting."""
    worker = store.register(lease=10_000)
    rate, burst = 7.0, 3
    _each(store, "7/s", burst)
    _join(store, 120)
    for number in range(150):
        if number * 7 % 3:
            store.admit(KEY)
        if number * 5 % 4:
            store.claim(worker, ask(room=1 + number % 3))
        store.advance((number * 37 % 101) / 1000)
    query = (
        "select extract(epoch from claimed_at)::float8 as at from job where state = 'x' order by 1"
    )
    starts = [row["at"] for row in store.rows(query)]
    assert_within(starts, rate, burst)
    assert len(starts) > 20


def test_admitting_says_when_the_key_has_its_next_token(store: Store) -> None:
    _each(store, "2/s", 2)
    _join(store, 9)
    admitted = store.run(jobs.admit(store.target, [KEY], store.now))
    assert (admitted.count, admitted.room_in) == (2, {})
    store.claim(store.register())
    ((key, room, _),) = store.run(jobs.lines("", 10, store.now))
    assert (key, room) == (KEY, True), "there are starts to be added up"
    assert store.run(jobs.admit(store.target, [KEY], store.now)) == Admission(0, {}, {KEY: 0.5})
    store.advance(0.1)
    ((key, room, room_in),) = store.run(jobs.lines("", 10, store.now))
    assert (key, room) == (KEY, False)
    assert room_in == pytest.approx(0.4)


def test_where_as_many_are_ready_as_may_start_at_once_only_a_start_says_when(store: Store) -> None:
    _each(store, "2/s", 2)
    _join(store, 9)
    assert store.admit() == 2
    assert store.run(jobs.lines("", 10, store.now)) == [(KEY, False, None)]
    assert store.run(jobs.admit(store.target, [KEY], store.now)).room_in == {}
    store.claim(store.register(), ask(room=1))
    store.admit()
    store.advance(0.2)
    answer = store.run(jobs.admit(store.target, [KEY], store.now))
    assert answer.room_in == {KEY: pytest.approx(0.3)}


def test_starts_that_were_noted_at_several_moments_are_added_up_one_after_another(
    store: Store,
) -> None:
    """As if each had been added up at once: a bucket that was full meanwhile earned nothing then."""
    worker = store.register(lease=10_000)
    _each(store, "1/s", 3)
    _join(store, 9)
    assert store.admit() == 3
    for after in (0.0, 10.0, 0.5):
        store.advance(after)
        assert len(store.claim(worker, ask(room=1))) == 1
    assert store.count("start") == 3
    store.admit()
    (row,) = store.rows("select spent_until from bucket")
    assert (row["spent_until"] - store.now).total_seconds() == 1.5
    assert store.count("start") == 0


def test_starts_are_added_up_even_if_no_job_waits(store: Store) -> None:
    _each(store, "1/h", 1)
    _join(store, 1)
    assert _start(store, store.register()) == 1
    assert store.run(jobs.lines("", 10, store.now)) == [(KEY, True, None)]
    assert store.admit(KEY) == 0
    assert store.count("start") == 0
    assert store.run(jobs.lines("", 10, store.now)) == []
    _join(store, 1)
    assert store.admit() == 0


def test_a_claim_that_is_rolled_back_takes_no_token_of_a_key(store: Store) -> None:
    worker = store.register(lease=10_000)
    _each(store, "1/h", 1)
    _join(store, 2)
    store.admit()
    with engine_connection(store.dsn) as other, other.transaction():
        assert len(store.run(jobs.claim(worker, shares([ask()], 9), store.now), other)) == 1
        assert store.admit(KEY) == 0, "it is ready to everybody else, and its token is kept"
        raise psycopg.Rollback
    assert store.count("start") == 0
    assert _start(store, worker) == 1
    assert _start(store, worker) == 0


def test_what_is_under_a_rate_needs_another_token_to_run_again(store: Store) -> None:
    _each(store, "1/min", 1)
    for kind in ("retry", "snooze", "release"):
        store.eyes.execute("delete from bucket")
        worker = store.register()
        one = store.held(worker, key=KEY, key_limit=0)
        store.settle(one, kind)  # type: ignore[arg-type]
        assert store.states(one.id) == ["blocked"], kind
        returned = kind == "release"
        assert store.admit(KEY) == returned, "it has not run, and gave its token back"
        store.advance(60)
        assert store.admit(KEY) == (not returned)
        store.eyes.execute("delete from job")


def test_what_is_returned_gives_its_token_back(store: Store) -> None:
    """It has not run. Added up with its start, or after it."""
    for added_up in (False, True):
        store.clear()
        worker = store.register(lease=10_000)
        _each(store, "1/min", 2)
        _join(store, 5)
        assert store.admit() == 2
        one, _ = store.claim(worker)
        if added_up:
            store.admit()
        store.settle(one, "release")
        assert _start(store, worker) == 1
        assert _start(store, worker) == 0
        (row,) = store.rows("select spent_until from bucket")
        assert (row["spent_until"] - store.now).total_seconds() == 120


def test_what_is_returned_under_another_rate_gives_nothing_back(store: Store) -> None:
    worker = store.register(lease=10_000)
    _each(store, "1/min", 2)
    _join(store, 9)
    assert store.admit() == 2
    one, _ = store.claim(worker)
    _each(store, "2/min", 1)
    assert _start(store, worker) == 1
    store.settle(one, "release")
    assert _start(store, worker) == 0
    store.advance(30)
    assert [_start(store, worker), _start(store, worker)] == [1, 0]


def test_jobs_returned_together_do_not_start_together(store: Store) -> None:
    """They started one by one, each with a token of its own; a full bucket takes none of them back."""
    worker = store.register(lease=10_000)
    _each(store, "1/s", 1)
    _join(store, 9)
    held: list[Claim] = []
    for _ in range(5):
        store.admit(KEY)
        held += store.claim(worker)
        store.advance(1)
    assert len(held) == 5
    for one in held:
        store.settle(one, "release")
    assert [_start(store, worker), _start(store, worker)] == [1, 0]
    store.advance(1)
    assert [_start(store, worker), _start(store, worker)] == [1, 0]


@pytest.mark.parametrize("survived", [True, False])
def test_a_rescued_job_of_a_key_with_a_rate_waits_for_a_token(store: Store, survived: bool) -> None:
    _each(store, "1/min", 1)
    dead = store.register(lease=1)
    one = store.held(dead, key=KEY, key_limit=0)
    store.advance(2)
    if survived:
        store.run(fleet.register("host:1", "0", 10, ["q"], [TASK], 1e6, store.now, was=dead))
    with store.listening() as heard:
        store.rescue()
        assert ("blocked" if survived else "later") in heard()
    if not survived:
        store.advance(1)
        assert store.run(jobs.promote(store.target, None, 9, store.now)).count == 1
        store.advance(-1)
    assert store.states(one.id) == ["blocked"]
    assert not store.row(one.id)["holds"]
    assert store.admit(KEY) == 0
    store.advance(58)
    assert store.admit(KEY) == 1


def test_the_step_after_one_with_a_rate_owes_it_nothing(store: Store, worker: int) -> None:
    """It has no key: once it waited for one that it does not have, for ever."""
    _each(store, "1/min", 1)
    one = store.held(worker, key=KEY, key_limit=0)
    store.settle(one, "advance", step="two")
    (two,) = store.claim(worker, ask(tasks=[f"{TASK}/two"]))
    store.settle(two, "retry")
    assert store.states(one.id) == ["ready"]
    dead = store.register(lease=1)
    assert len(store.claim(dead, ask(tasks=[f"{TASK}/two"]))) == 1
    store.advance(2)
    store.rescue()
    store.advance(2)
    assert store.run(jobs.promote(store.target, None, 9, store.now)).count == 1
    assert store.states(one.id) == ["ready"]


def test_another_rate_of_each_key_begins_with_all_its_tokens(store: Store) -> None:
    """Declared, set by someone, and taken back."""
    worker = store.register(lease=1_000_000)

    def starts() -> list[int]:
        return [_start(store, worker), _start(store, worker)]

    _each(store, "1/d", 1)
    _join(store, 9)
    assert starts() == [1, 0]
    store.limit(TASK, "keys", rate="1/d", burst=1, concurrency=9)
    assert starts() == [0, 0], "the rate is the same"
    store.limit(TASK, "keys", rate="1/h", burst=2)
    assert starts() == [2, 0]
    assert reset(store, TASK, "keys") is True
    assert starts() == [1, 0]
    _each(store, "1/s", 3)
    assert starts() == [3, 0]


def test_a_key_that_has_earned_all_its_tokens_is_forgotten(store: Store) -> None:
    _each(store, "1/s", 3)
    _join(store, 2)
    assert _start(store, store.register()) == 2
    store.admit(KEY)
    store.advance(1.9)
    store.run(fleet.clean_up(store.now))
    assert store.count("bucket") == 1
    store.advance(0.1)
    store.run(fleet.clean_up(store.now))
    assert store.count("bucket") == 0


def test_starts_under_a_rate_that_is_no_more_are_forgotten(store: Store) -> None:
    _each(store, "1/s", 3)
    _join(store, 2)
    assert _start(store, store.register()) == 2
    store.run(fleet.clean_up(store.now))
    assert store.count("start") == 1
    store.limit(TASK, "keys", concurrency=3)
    store.run(fleet.clean_up(store.now))
    assert store.count("start") == 0


def test_a_job_admitted_by_a_verdict_takes_a_token_as_well(store: Store, worker: int) -> None:
    _each(store, "1/s", 2, concurrency=1)
    _join(store, 3)
    counts: list[int] = []
    for _ in range(3):
        counts.append(store.admit(KEY))
        for one in store.claim(worker):
            store.run(jobs.finish(store.target, [Settled(one, verdict("succeed"))], store.now))
    assert counts == [1, 1, 0]
    store.advance(1)
    assert store.admit(KEY) == 1


def test_what_no_worker_has_declared_waits_for_the_limits_that_come_with_it(store: Store) -> None:
    """Producers may be deployed first. Where no worker lives there is nobody to wait for."""
    worker = store.register(lease=10_000)
    store.run(fleet.heartbeat(worker, 10_000, store.now))
    _join(store, 9)
    assert store.admit() == 0
    _each(store, "1/h", 2)
    assert [_start(store, worker), _start(store, worker)] == [2, 0]
    store.clear()
    _join(store, 2)
    assert store.admit() == 2
    store.clear()
    store.run(fleet.heartbeat(store.register(), 10_000, store.now))
    store.declare()
    _join(store, 2)
    assert store.admit() == 2, "its code has no limit any more"
