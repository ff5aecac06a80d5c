"""Requests to stop, progress and new limits, while the same jobs are settled: nobody waits, none is lost.

A statement locks its rows one after the other. Here each row has a statement of its own, so that every
order of their locks is tried. `_FREE` is how many orders there are if nobody ever waits.
"""

from __future__ import annotations

from math import comb
from typing import Any

import psycopg
import pytest

from headway.core.limits import Limit
from headway.core.verdict import Kind
from headway.store.documents import Settled
from headway.store.rows import Claim
from headway.store.statement import Statement
from headway.store.statements import controls, jobs
from tests.interleave.driver import Every, Step, begin, commit, does, says
from tests.store.store import Store, a_claim, ask, new_job, shares, verdict

_FREE = comb(6, 3)
"""Two sessions of three steps each."""


def _running(store: Store, many: int) -> list[Claim]:
    store.clear()
    store.run(jobs.enqueue(store.target, [new_job() for _ in range(many)], store.now))
    return sorted(store.claim(store.register()), key=lambda claim: claim.seq)


def _verdict(store: Store, kind: Kind, *claims: Claim, careful: bool = False) -> Statement[Any]:
    settled = [Settled(claim, verdict(kind)) for claim in claims]
    if kind == "advance":
        return jobs.advance(store.target, settled, store.now)
    if kind in ("succeed", "fail", "cancel"):
        return jobs.finish(store.target, settled, store.now, careful=careful)
    return jobs.requeue(store.target, 0, settled, store.now)


def _in_turn(*statements: Statement[Any]) -> list[Step]:
    """One transaction of these statements."""
    first, *others = (says(lambda statement=statement: statement) for statement in statements)
    return [does(begin, first), *others, commit]


def _no_error(answers: list[list[Any]]) -> None:
    found = [answer for each in answers for answer in each if isinstance(answer, psycopg.Error)]
    assert found == []


def _settle_the_rest(store: Store, kind: Kind, claims: list[Claim]) -> None:
    """As the settler does with verdicts that it has set aside."""
    left = [claim for claim in claims if store.states(claim.id) == ["running"]]
    assert store.run(_verdict(store, kind, *left, careful=True)) == {}


@pytest.mark.parametrize("kind", ["succeed", "fail", "retry", "advance"])
def test_r3_progress_and_verdicts_in_opposite_orders(
    store: Store, every: Every, kind: Kind
) -> None:
    claims: list[Claim] = []

    def setup() -> list[list[Step]]:
        claims[:] = _running(store, 2)
        a, b = claims
        notes = [jobs.progress([(claim, {"percent": 1})]) for claim in (a, b)]
        verdicts = [_verdict(store, kind, claim) for claim in (b, a)]
        return [_in_turn(*notes), _in_turn(*verdicts)]

    def after(answers: list[list[Any]]) -> None:
        _no_error(answers)
        assert {why for answer in answers[1][:2] for why in answer.values()} <= {"locked"}
        _settle_the_rest(store, kind, claims)
        assert not store.rows("select 1 from job where state = 'x'")

    assert every.order(setup, after) == _FREE


def test_r3_progress_of_a_batch_and_the_end_of_the_batch(store: Store, every: Every) -> None:
    claims: list[Claim] = []

    def setup() -> list[list[Step]]:
        claims[:] = _running(store, 6)
        notes = jobs.progress([(claim, {"percent": 1}) for claim in claims])
        return [_in_turn(notes), _in_turn(_verdict(store, "succeed", *reversed(claims)))]

    def after(answers: list[list[Any]]) -> None:
        _no_error(answers)
        _settle_the_rest(store, "succeed", claims)
        assert store.count("archive") == 6

    assert every.order(setup, after) == comb(4, 2)


@pytest.mark.parametrize("whose", ["its own", "everybody's"])
@pytest.mark.parametrize("kind", ["succeed", "retry"])
def test_r9_two_workers_settle_and_mark_what_runs_under_a_new_limit(
    store: Store, every: Every, kind: Kind, whose: str
) -> None:
    """In one transaction each, as the job loop does."""
    claims: list[Claim] = []

    def setup() -> list[list[Step]]:
        store.clear()
        store.run(jobs.enqueue(store.target, [new_job() for _ in range(4)], store.now))
        workers = [store.register(), store.register()]
        held = [store.claim(worker, room=2) for worker in workers]
        claims[:] = [claim for each in held for claim in each]
        limit = Limit(concurrency=3)
        store.run(controls.set_limit(store.target, "queue", "q", limit, "ada", store.now))
        return [
            _in_turn(
                _verdict(store, kind, each[0]),
                controls.mark_limited(worker if whose == "its own" else None),
            )
            for worker, each in zip(workers, held, strict=True)
        ]

    def after(answers: list[list[Any]]) -> None:
        _no_error(answers)
        _settle_the_rest(store, kind, [claims[0], claims[2]])
        store.run(controls.mark_limited())
        marked = store.rows("select limited from job where state = 'x'")
        assert marked == [{"limited": True}] * 2

    assert every.order(setup, after) == _FREE


@pytest.mark.parametrize("kind", ["retry", "snooze", "release", "advance"])
def test_a_job_that_is_cancelled_while_it_goes_on_ends_as_cancelled(
    store: Store, every: Every, kind: Kind
) -> None:
    """Somebody cancels it, its worker sends it round again or to its next step, another claims it."""
    ids: list[str] = []

    def setup() -> list[list[Step]]:
        (claim,) = _running(store, 1)
        ids[:] = [claim.id]
        tasks = ["resize", "resize/two"]
        asked = shares([ask(tasks=tasks)])
        return [
            _in_turn(jobs.cancel(store.target, [claim.id], store.now)),
            _in_turn(_verdict(store, kind, claim)),
            _in_turn(jobs.claim(store.register(), asked, store.now)),
        ]

    def after(answers: list[list[Any]]) -> None:
        _no_error(answers)
        (cancelled, _), (untouched, _), (claimed, _) = answers
        (said,) = cancelled.values()
        assert said in ("cancelled", "asked"), (
            "each caller learns that the job was cancelled or asked to stop"
        )
        (state,) = store.states(ids[0])
        if state == "running":
            # Its worker reads the request, or learns of it when it settles.
            (row,) = store.rows("select claim from job")
            current = next(iter(claimed), None) or a_claim(ids[0], row["claim"])
            assert store.run(jobs.held([current])) == {ids[0]: True}
            assert store.run(_verdict(store, "cancel", current, careful=True)) == {}
        elif state != "cancelled":
            assert untouched == {}
            assert store.cancel_asked() == 1
        assert store.states(ids[0]) == ["cancelled"]
        assert store.count("stop_request") == 0

    assert every.order(setup, after) == 90


def test_two_cancels_of_the_same_jobs_in_two_orders(store: Store, every: Every) -> None:
    ids: list[str] = []

    def setup() -> list[list[Step]]:
        store.clear()
        ids[:] = [str(store.enqueue()) for _ in range(2)]
        a, b = ([job_id] for job_id in ids)
        return [
            _in_turn(*(jobs.cancel(store.target, one, store.now) for one in (a, b))),
            _in_turn(*(jobs.cancel(store.target, one, store.now) for one in (b, a))),
        ]

    def after(answers: list[list[Any]]) -> None:
        _no_error(answers)
        assert [store.states(job_id) for job_id in ids] == [["cancelled"]] * 2
        assert store.run(jobs.asked(9)) == []

    assert every.order(setup, after) == _FREE
