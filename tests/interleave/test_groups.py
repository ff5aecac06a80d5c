"""The follow-up of a group becomes ready exactly once, in whatever order things happen."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from headway.store.documents import NewJob, Settled
from headway.store.statements import groups, jobs
from tests.interleave.driver import Every, Step, begin, commit, does, rollback, says
from tests.store.store import Store, new_job, verdict


@pytest.mark.parametrize("end", [commit, rollback])
def test_of_two_who_end_the_last_members_and_two_who_look_one_makes_it_ready(
    store: Store, every: Every, end: Step
) -> None:
    """Nobody waits for another, and the look after all of them finds what they missed."""
    follow_up = UUID(int=0)

    def look() -> Any:
        return groups.gather(store.target, [str(follow_up)], store.now)

    def setup() -> list[list[Step]]:
        nonlocal follow_up
        store.clear()
        worker = store.register()
        last = new_job(task="report", queue="later")
        follow_up = UUID(last.id)
        store.run(groups.enqueue(store.target, [new_job(), new_job()], last, 0, store.now))
        claims = store.claim(worker)
        ends = [
            [does(begin, says(lambda c=claim: _finish(store, c))), last_step]
            for claim, last_step in zip(claims, (commit, end), strict=True)
        ]
        return [*ends, [says(look)], [does(begin, says(look)), commit]]

    def after(answers: list[list[Any]]) -> None:
        *_, (first,), (second, _) = answers
        made = first + second
        assert made <= (end is commit)
        assert made + store.run(look()) == (end is commit)
        assert store.states(follow_up) == ["ready" if end is commit else "waiting"]

    assert every.order(setup, after) > 1


def test_a_job_that_a_caller_adds_to_a_group_and_that_ends_meanwhile_is_not_waited_for(
    store: Store, every: Every
) -> None:
    """A member may be a job that lives already: its unique key is taken."""
    made: list[NewJob] = []

    def setup() -> list[list[Step]]:
        store.clear()
        worker = store.register()
        store.enqueue(unique_key="one")
        (claim,) = store.claim(worker)
        made[:] = [new_job(unique_key="one", on_taken="skip", queue="q2"), new_job(queue="later")]
        member, last = made
        return [
            [does(begin, says(lambda: _finish(store, claim))), commit],
            [
                does(
                    begin,
                    says(lambda: groups.enqueue(store.target, [member], last, 0, store.now)),
                ),
                commit,
            ],
        ]

    def after(answers: list[list[Any]]) -> None:
        member, last = made
        joined = answers[1][0] != {}
        assert store.run(groups.gather(store.target, [last.id], store.now)) == joined
        assert store.states(last.id) == ["ready" if joined else "waiting"]
        assert store.states(member.id) == ([] if joined else ["ready"])

    assert every.order(setup, after) > 1


def _finish(store: Store, claim: Any) -> Any:
    return jobs.finish(store.quiet, [Settled(claim, verdict("succeed"))], store.now)
