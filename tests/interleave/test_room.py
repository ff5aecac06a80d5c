"""Room under a key, while sessions free it, take it and join the line at once.

The engine sends what is here one step each (settle, lock the keys, admit, commit) in one round trip; on
the server they are statements like others, and anything may happen in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from headway.store.statements import jobs
from tests.interleave.driver import Every, Step, commit, does, rollback, says
from tests.interleave.line import Line
from tests.store.store import Store, ask, shares


def test_two_finishes_at_once_admit_under_both_keys(store: Store, every: Every) -> None:
    line = Line(store, limit=2)

    def setup() -> list[list[Step]]:
        line.make(running=2, blocked=3)
        return [line.settles(claim) for claim in line.running]

    def after(_: object) -> None:
        assert line.holding == line.blocked[:2]

    assert every.order(setup, after, line.within_the_limit) >= 6


@pytest.mark.parametrize("limit", [1, 2])
def test_a_finish_and_a_scan_at_once_give_room_once(store: Store, every: Every, limit: int) -> None:
    """No scan is needed: the session that frees the room admits the next job."""
    line = Line(store, limit=limit)

    def setup() -> list[list[Step]]:
        line.make(running=limit, blocked=2)
        return [line.settles(line.running[0]), line.admits()]

    def after(_: object) -> None:
        line.is_used_up()

    assert every.order(setup, after, line.within_the_limit) >= 6


@pytest.mark.parametrize("limit", [1, 2])
def test_two_scans_at_once_admit_no_more_than_one(store: Store, every: Every, limit: int) -> None:
    line = Line(store, limit=limit)

    def setup() -> list[list[Step]]:
        line.make(running=0, blocked=0, late=4)
        return [line.admits(), line.admits()]

    def after(_: object) -> None:
        assert sorted(line.holding) == sorted(line.blocked[:limit])

    every.order(setup, after, line.within_the_limit)


def test_room_that_is_left_and_room_that_is_freed_are_each_given_once(
    store: Store, every: Every
) -> None:
    line = Line(store, limit=2)

    def setup() -> list[list[Step]]:
        line.make(running=1, blocked=0, late=4)
        return [line.settles(line.running[0]), line.admits()]

    def after(_: object) -> None:
        assert sorted(line.holding) == sorted(line.blocked[:2])

    every.order(setup, after, line.within_the_limit)


def test_a_job_that_joins_late_is_admitted_by_the_scan_that_its_commit_asks_for(
    store: Store, every: Every
) -> None:
    line = Line(store, limit=2)

    def setup() -> list[list[Step]]:
        line.make(running=2, blocked=0)
        late = line.new()
        joins = line.alone(lambda: jobs.enqueue(store.target, [late], store.now))
        settle, lock, *rest = line.settles(line.running[0])
        return [[settle, lock, does(*rest)], [does(*line.admits())], joins]

    def after(_: object) -> None:
        line.admit()
        line.is_used_up()
        assert not line.waiting

    assert every.order(setup, after, line.within_the_limit) >= 30


def test_a_retry_that_waits_frees_its_room_once(store: Store, every: Every) -> None:
    line = Line(store, limit=2)

    def setup() -> list[list[Step]]:
        line.make(running=2, blocked=2)
        later = line.settles(line.running[0], "retry", delay=5)
        return [later, line.settles(line.running[1], "retry", delay=0)]

    def after(_: object) -> None:
        assert set(line.holding) == {line.running[1].id, line.blocked[0]}

    every.order(setup, after, line.within_the_limit)


_HOW_IT_IS_LOST = {
    "ends": "update job set options = '{\"retry\": {\"max_crashes\": 1}}' where state = 'x'",
    "comes back later": "select",
    "runs again": "update worker set survived = true",
}


@pytest.mark.parametrize("how", _HOW_IT_IS_LOST)
def test_a_lost_holder_is_settled_or_rescued_and_its_room_given_once(
    store: Store, every: Every, how: str
) -> None:
    """Its worker wakes up and settles while others take the job back."""
    line = Line(store)

    def setup() -> list[list[Step]]:
        line.make(running=1, blocked=2, lease=5)
        store.eyes.execute(_HOW_IT_IS_LOST[how])  # type: ignore[arg-type]
        # The careful way, which also takes a row that was changed since its claim.
        store.advance(6)
        return [line.settles(line.running[0], careful=True), line.rescues()]

    def after(answers: list[list[Any]]) -> None:
        (untouched, *_), (rescued, _) = answers
        assert (len(untouched), len(rescued)) in ((0, 0), (1, 1)), "settled once, by one of them"
        line.admit()  # the rescue sends a notification for it
        keeps = rescued and how == "runs again"
        assert line.holding == [line.running[0].id if keeps else line.blocked[0]]

    assert every.order(setup, after, line.within_the_limit) >= 6


def test_a_cancelled_holder_frees_its_room_once(store: Store, every: Every) -> None:
    """It was admitted and not claimed yet, while a scan is under way."""
    line = Line(store, limit=2)

    def setup() -> list[list[Step]]:
        line.make(running=1, blocked=3)
        (holder,) = set(line.holding) - {line.running[0].id}
        return [line.cancels(holder), line.settles(line.running[0])]

    def after(_: object) -> None:
        line.admit()  # 'room' was notified
        assert line.holding == line.blocked[1:]

    every.order(setup, after, line.within_the_limit)


def _first_is_cancelled(line: Line) -> list[Step]:
    return line.cancels(line.blocked[0])


def _first_is_edited(line: Line) -> list[Step]:
    return line.alone(lambda: jobs.edit(UUID(line.blocked[0]), "", b"{}"))


def _first_is_edited_in_vain(line: Line) -> list[Step]:
    return line.alone(lambda: jobs.edit(UUID(line.blocked[0]), "", b"{}"), rollback)


def _first_expires(line: Line) -> list[Step]:
    store = line.store
    store.eyes.execute("update job set expires_at = %s where id = %s", (store.now, line.blocked[0]))
    return line.alone(lambda: jobs.expire(store.target, 99, store.now))


@pytest.mark.parametrize(
    "change", [_first_is_cancelled, _first_expires, _first_is_edited, _first_is_edited_in_vain]
)
def test_no_job_overtakes_the_first_of_an_ordered_line_while_it_is_changed(
    store: Store, every: Every, change: Callable[[Line], list[Step]]
) -> None:
    line = Line(store, ordered=True)

    def setup() -> list[list[Step]]:
        line.make(running=1, blocked=3)
        return [change(line), line.settles(line.running[0])]

    def in_order() -> None:
        line.within_the_limit()
        let_in = [job_id for job_id in line.blocked if job_id not in line.waiting]
        assert let_in == line.blocked[: len(let_in)]

    def after(_: object) -> None:
        line.admit()
        gone = store.archived(line.blocked[0]) is not None
        assert line.holding == [line.blocked[gone]]

    every.order(setup, after, in_order)


@pytest.mark.parametrize("change", [_first_is_cancelled, _first_expires])
def test_who_takes_the_first_out_of_an_ordered_line_rings_for_the_next(
    store: Store, every: Every, change: Callable[[Line], list[Step]]
) -> None:
    """The room may have been freed while the first could be neither admitted nor overtaken."""
    line = Line(store, ordered=True)
    with store.listening() as heard:

        def setup() -> list[list[Step]]:
            line.make(running=1, blocked=2)
            heard()
            return [change(line), line.settles(line.running[0])]

        def after(_: object) -> None:
            assert line.holding or f"room {line.blocked[0]}" in heard()

        every.order(setup, after, line.within_the_limit)


def test_a_claim_in_the_same_transaction_takes_admitted_jobs(store: Store, every: Every) -> None:
    """Two workers settle and claim, as the engine does, all in one commit each."""
    line = Line(store, limit=2)
    workers: list[int] = []

    def settles_and_claims(number: int) -> list[Step]:
        claim = says(lambda: jobs.claim(workers[number], shares([ask()], 9), store.now))
        settle, lock, admit, _ = line.settles(line.running[number])
        return [settle, does(lock, admit), claim, commit]

    def setup() -> list[list[Step]]:
        line.make(running=2, blocked=4)
        workers[:] = [store.register(), store.register()]
        return [settles_and_claims(0), settles_and_claims(1)]

    def after(answers: list[list[Any]]) -> None:
        claimed = [claim.id for _, _, claims, _ in answers for claim in claims]
        assert sorted(claimed) == sorted(line.holding) == sorted(line.blocked[:2])

    every.order(setup, after, line.within_the_limit)
