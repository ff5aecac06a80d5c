"""Exactly one job has a unique key, however sessions come first, wait, commit or roll back."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from headway.core import codec
from headway.store.documents import NewJob, Settled
from headway.store.statements import fleet, jobs
from tests.interleave.driver import Every, Step, begin, commit, does, rollback, says
from tests.store.store import TASK, Store, ask, new_job, shares, verdict

ENDS = {"commit": commit, "rollback": rollback}
_HAVING = """select id::text, input from job
             where unique_key is not null and (not until_claimed or claim = 0)"""


def job(policy: str, key: str = "k", **fields: Any) -> NewJob:
    fields.setdefault("until_claimed", policy == "replace")
    return new_job(unique_key=key, on_taken=policy, **fields)


def enqueue(store: Store, *made: NewJob) -> Step:
    return does(begin, says(lambda: jobs.enqueue(store.target, made, store.now)))


def input_of(made: NewJob) -> Any:
    return codec.decode(bytes(made.input))


def is_taken(answer: object) -> bool:
    return isinstance(answer, psycopg.Error) and answer.sqlstate == "HW001"


@pytest.mark.parametrize("policy", ["skip", "replace", "reject"])
@pytest.mark.parametrize("ends", list(itertools.product(ENDS, ENDS)), ids="-".join)
def test_of_two_that_are_made_at_once_one_has_the_key(
    store: Store, every: Every, policy: str, ends: Sequence[str]
) -> None:
    """Exact, too, when the one that was first rolls back: then the other has it."""
    pair: list[NewJob] = []

    def setup() -> list[list[Step]]:
        store.clear()
        pair[:] = [job(policy), job(policy)]
        return [[enqueue(store, made), ENDS[end]] for made, end in zip(pair, ends, strict=True)]

    def after(answers: list[list[Any]]) -> None:
        rows = store.rows(_HAVING)
        lasting = [
            (made, answer)
            for made, end, (answer, _) in zip(pair, ends, answers, strict=True)
            if end == "commit" and not is_taken(answer)
        ]
        assert len(rows) == bool(lasting)
        for made, answer in lasting:
            assert answer == ({} if made.id == rows[0]["id"] else {made.id: rows[0]["id"]})
        if policy == "reject" and "rollback" not in ends:
            assert [is_taken(answer) for answer, _ in answers].count(True) == 1
        if policy == "replace" and lasting:
            # The session that replaced came second, and waited for the first to commit.
            second = [made for made, answer in lasting if answer] or [lasting[0][0]]
            assert rows[0]["input"] == input_of(second[0])

    assert every.order(setup, after) == 4


@pytest.mark.parametrize("losers", [1, 2])
def test_of_three_the_key_goes_to_one_whose_transaction_commits(
    store: Store, every: Every, losers: int
) -> None:
    trio: list[NewJob] = []

    def setup() -> list[list[Step]]:
        store.clear()
        trio[:] = [job("skip") for _ in range(3)]
        return [
            [enqueue(store, made), rollback if number < losers else commit]
            for number, made in enumerate(trio)
        ]

    def after(answers: list[list[Any]]) -> None:
        (row,) = store.rows(_HAVING)
        assert row["id"] in [made.id for made in trio[losers:]]
        for made, (answer, _) in list(zip(trio, answers, strict=True))[losers:]:
            assert answer == ({} if made.id == row["id"] else {made.id: row["id"]})

    assert every.order(setup, after) > 20


@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_two_calls_with_the_same_keys_in_different_order_do_not_wait_for_each_other(
    store: Store, every: Every, policy: str
) -> None:
    calls: list[list[NewJob]] = []

    def setup() -> list[list[Step]]:
        store.clear()
        calls[:] = [[job(policy, key) for key in keys] for keys in ("abc", "cba")]
        return [[enqueue(store, *call), commit] for call in calls]

    def after(answers: list[list[Any]]) -> None:
        first, second = sorted((answer for answer, _ in answers), key=len)
        assert (len(first), len(second)) == (0, 3)
        assert {row["id"] for row in store.rows(_HAVING)} == set(second.values())

    every.order(setup, after)


@pytest.mark.parametrize("end", ENDS)
def test_a_replacement_meets_its_job_before_the_claim_or_is_a_job_of_its_own(
    store: Store, every: Every, end: str
) -> None:
    new: list[NewJob] = []

    def setup() -> list[list[Step]]:
        store.clear()
        worker = store.register()
        store.run(jobs.enqueue(store.target, [job("replace", input={"n": "old"})], store.now))
        new[:] = [job("replace", input={"n": "new"})]
        return [
            [enqueue(store, *new), ENDS[end]],
            [does(begin, says(lambda: jobs.claim(worker, shares([ask()], 9), store.now))), commit],
        ]

    def after(answers: list[list[Any]]) -> None:
        (_, _), (claimed, _) = answers
        runs = [codec.decode(claim.input)["n"] for claim in claimed]
        waits = [row["input"]["n"] for row in store.rows("select input from job where state = 'r'")]
        # The one has locked the job, and the other skips it: its worker is notified, and asks again.
        wanted = {"commit": (["new"], ["old", "new"]), "rollback": (["old"],)}[end]
        assert sorted(runs + waits, reverse=True) in wanted

    every.order(setup, after)


@pytest.mark.parametrize("end", ENDS)
def test_a_job_is_there_after_a_skip_and_the_key_is_free_after_its_end(
    store: Store, every: Every, end: str
) -> None:
    old: list[Any] = []
    new: list[NewJob] = []

    def setup() -> list[list[Step]]:
        store.clear()
        made = job("skip")
        store.run(jobs.enqueue(store.target, [made], store.now))
        (claim,) = store.claim(store.register())
        old[:], new[:] = [made.id], [job("skip")]
        done = [Settled(claim, verdict("succeed"))]
        finish = does(begin, says(lambda: jobs.finish(store.target, done, store.now)))
        return [[finish, ENDS[end]], [enqueue(store, *new), commit]]

    def after(answers: list[list[Any]]) -> None:
        (_, _), (taken, _) = answers
        assert store.states(old[0]) == ["succeeded" if end == "commit" else "running"]
        assert taken in ({}, {new[0].id: old[0]})
        assert store.states(new[0].id) == ([] if taken else ["ready"])
        assert taken or end == "commit", "the key was never free"

    every.order(setup, after)


@pytest.mark.parametrize("ends", list(itertools.product(ENDS, ENDS)), ids="-".join)
def test_a_key_that_is_taken_for_a_period_is_taken_once(
    store: Store, every: Every, ends: Sequence[str]
) -> None:
    """Also while the sweep removes the period before, which is over."""
    pair: list[NewJob] = []

    def setup() -> list[list[Step]]:
        store.clear()
        store.run(jobs.enqueue(store.target, [job("skip", period=9.0)], store.now))
        store.advance(10)
        pair[:] = [job("skip", period=9.0) for _ in ENDS]
        producers = [
            [enqueue(store, made), ENDS[end]] for made, end in zip(pair, ends, strict=True)
        ]
        return [*producers, [does(begin, says(lambda: fleet.clean_up(store.now))), commit]]

    def after(answers: list[list[Any]]) -> None:
        lasting = [
            (made, answer[0])
            for made, end, answer in zip(pair, ends, answers, strict=False)
            if end == "commit"
        ]
        assert len([made for made, taken in lasting if not taken]) == bool(lasting)
        # A period that somebody was just taking over is left for the next sweep.
        store.run(fleet.clean_up(store.now))
        rows = store.rows("select job_id::text as id from unique_period")
        assert len(rows) == bool(lasting)
        for made, taken in lasting:
            assert taken == ({} if made.id == rows[0]["id"] else {made.id: rows[0]["id"]})
        assert store.count("job") == 1 + bool(lasting)

    every.order(setup, after)


@pytest.mark.parametrize("end", ENDS)
def test_a_revived_job_has_its_key_back_or_fails_to_come_back(
    store: Store, every: Every, end: str
) -> None:
    """While another takes the key. It is never lost, and never two have it."""
    old: list[Any] = []

    def setup() -> list[list[Step]]:
        store.clear()
        made = job("skip")
        store.run(jobs.enqueue(store.target, [made], store.now))
        (claim,) = store.claim(store.register())
        assert store.settle(claim, "fail")
        old[:] = [claim.id]
        revive = does(
            begin,
            lambda session: session.run(
                jobs.revive(
                    store.target, store.one("select id from archive")["id"], None, store.now
                )
            ),
        )
        return [[revive, commit], [enqueue(store, job("skip")), ENDS[end]]]

    def after(answers: list[list[Any]]) -> None:
        (revived, _), _ = answers
        failed = isinstance(revived, psycopg.errors.UniqueViolation)
        assert store.states(old[0]) == ["failed" if failed else "ready"]
        assert not failed or end == "commit"
        assert len(store.rows(_HAVING)) == 1

    every.order(setup, after)


def test_the_task_is_part_of_the_key(store: Store, every: Every) -> None:
    def setup() -> list[list[Step]]:
        store.clear()
        return [[enqueue(store, job("reject", task=task)), commit] for task in (TASK, "other")]

    def after(answers: list[list[Any]]) -> None:
        assert [answer for answer, _ in answers] == [{}, {}]

    assert every.order(setup, after) == 6  # nobody ever waits
