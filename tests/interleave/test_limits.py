"""Claims, settlements, rescues and changes at once never exceed limits of queues and tasks.

A worker takes the limits that it may meet and claims in the next statement, in one round trip; on the
server these are two statements, and anything may happen before, between and behind them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from headway.core.info import ControlKind
from headway.core.limits import Limit
from headway.store.documents import Settled
from headway.store.rows import Claim
from headway.store.statement import Statement
from headway.store.statements import controls, jobs
from tests.interleave.driver import Every, Step, begin, commit, does, rollback, says
from tests.store.store import TASK, Store, ask, new_job, shares, verdict

ENDS = {"commit": commit, "rollback": rollback}
KINDS: list[ControlKind] = ["queue", "task"]
_RUNNING = "select count(*) as n from job where state = 'x'"


@dataclass
class Limited:
    """A queue of jobs of one task; the queue or the task has a limit."""

    store: Store
    kind: ControlKind

    @property
    def name(self) -> str:
        return "q" if self.kind == "queue" else TASK

    def make(self, ready: int, **numbers: Any) -> None:
        self.store.clear()
        if numbers:
            self.store.limit(self.name, self.kind, **numbers)
        made = [new_job() for _ in range(ready)]
        self.store.run(jobs.enqueue(self.store.target, made, self.store.now))

    @property
    def running(self) -> int:
        return self.store.one(_RUNNING)["n"]

    @property
    def spent(self) -> float:
        """For how many seconds all tokens are spent."""
        spent = self.store.spent_until(self.name, self.kind)
        return ((spent or self.store.now) - self.store.now).total_seconds()

    def take(self, worker: int, room: int = 9) -> list[Claim]:
        """A claim that nobody disturbs."""
        with self.store.conn.transaction():
            self.store.run(self._lock())
            return self.store.run(self._claim(worker, room))

    # -- what a session does ------------------------------------------------------------------------

    def claims(self, worker: int, end: Step = commit) -> list[Step]:
        lock = does(begin, says(self._lock))
        return [lock, says(lambda: self._claim(worker, 9)), end]

    def settles_and_claims(self, claim: Claim, worker: int) -> list[Step]:
        done = [Settled(claim, verdict("succeed"))]
        finish = does(begin, says(lambda: jobs.finish(self.store.target, done, self.store.now)))
        return [does(finish, says(self._lock)), *self.claims(worker)[1:]]

    def sets(self, limit: Limit | None) -> list[Step]:
        """As `hw.controls.limit` does: it marks what runs, in the same transaction."""
        return [
            does(
                begin,
                says(
                    lambda: controls.set_limit(
                        self.store.target, self.kind, self.name, limit, "ada", self.store.now
                    )
                ),
                says(controls.mark_limited),
            ),
            commit,
        ]

    def rescues(self) -> list[Step]:
        return _alone(lambda: jobs.rescue(self.store.target, 99, self.store.now))

    def _lock(self) -> Statement[Any]:
        queues, tasks = (["q"], []) if self.kind == "queue" else ([], [TASK])
        return controls.lock(queues, tasks, self.store.now)

    def _claim(self, worker: int, room: int) -> Statement[list[Claim]]:
        asked = shares([ask(alone=self.kind == "task")], room)
        return jobs.claim(worker, asked, self.store.now)


def _alone(statement: Callable[[], Statement[Any]]) -> list[Step]:
    return [does(begin, says(statement)), commit]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ENDS)
def test_of_two_claims_under_a_limit_of_one_one_gets_a_job(
    store: Store, every: Every, kind: ControlKind, end: str
) -> None:
    limited = Limited(store, kind)

    def setup() -> list[list[Step]]:
        limited.make(3, concurrency=1)
        return [
            limited.claims(store.register()),
            limited.claims(store.register(), ENDS[end]),
        ]

    def within() -> None:
        assert limited.running <= 1

    def after(answers: list[list[Any]]) -> None:
        (_, first, _), (_, second, _) = answers
        assert len(first) <= 1
        assert len(second) <= 1
        assert first or second, "both went away with nothing"
        if limited.running == 0:
            assert end == "rollback"
            assert len(limited.take(store.register())) == 1
        assert limited.running == 1
        assert limited.take(store.register()) == []

    assert every.order(setup, after, within) == 20  # nobody ever waits


def test_three_claims_get_no_more_than_the_limit_together(store: Store, every: Every) -> None:
    limited = Limited(store, "task")

    def setup() -> list[list[Step]]:
        limited.make(6, concurrency=2)
        claims = [limited.claims(store.register()) for _ in range(3)]
        return [[lock, does(claim, end)] for lock, claim, end in claims]

    def after(_: object) -> None:
        assert limited.running == 2

    assert every.order(setup, after) == 90


@pytest.mark.parametrize("kind", KINDS)
def test_room_that_is_freed_is_taken_once(store: Store, every: Every, kind: ControlKind) -> None:
    """By who frees it, in the same commit as the engine does, or by who comes along."""
    limited = Limited(store, kind)

    def setup() -> list[list[Step]]:
        limited.make(4, concurrency=1)
        worker = store.register()
        (claim,) = limited.take(worker)
        return [limited.settles_and_claims(claim, worker), limited.claims(store.register())]

    def within() -> None:
        assert limited.running <= 1

    def after(_: object) -> None:
        limited.take(store.register())  # who frees room, or found the limit taken, asks again
        assert limited.running == 1
        assert store.count("archive") == 1

    every.order(setup, after, within)


@pytest.mark.parametrize("kind", KINDS)
def test_who_claims_as_a_limit_is_lowered_keeps_to_what_is_said(
    store: Store, every: Every, kind: ControlKind
) -> None:
    limited = Limited(store, kind)

    def setup() -> list[list[Step]]:
        limited.make(6, concurrency=3)
        return [limited.claims(store.register()), limited.sets(Limit(concurrency=1))]

    def after(answers: list[list[Any]]) -> None:
        (_, claimed, _), _ = answers
        assert len(claimed) in (0, 1, 3)
        total = limited.running + len(limited.take(store.register()))
        assert total == (len(claimed) or 1), "a lowered limit admits no other job"

    every.order(setup, after)


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_claimed_as_the_first_limit_is_set_counts_from_the_next_sweep_on(
    store: Store, every: Every, kind: ControlKind
) -> None:
    """The one does not see the other. The sweep comes along every few seconds."""
    limited = Limited(store, kind)
    seen: set[tuple[int, int]] = set()

    def setup() -> list[list[Step]]:
        limited.make(4)
        return [limited.claims(store.register()), limited.sets(Limit(concurrency=1))]

    def after(answers: list[list[Any]]) -> None:
        (_, claimed, _), _ = answers
        assert len(claimed) in (0, 1, 4), "all, if the limit was not there; none, if not ours"
        seen.add((len(claimed), store.run(controls.mark_limited())))
        assert len(limited.take(store.register())) == (0 if claimed else 1)

    every.order(setup, after)
    assert {(4, 0), (4, 4)} <= seen, "who sets it counts those that it sees, the sweep the others"
    assert not {(0, 4), (1, 1)} & seen


def _stopped(limited: Limited) -> Step:
    """A claim, and whether it began behind the pause."""
    worker = limited.store.register()

    def claim(session: Any) -> tuple[bool, list[Claim]]:
        paused = session.run(controls.read(limited.store.now))
        got = session.run(limited._claim(worker, 9))  # pyright: ignore[reportPrivateUsage]
        return any(row.paused for row in paused), got

    return claim


@pytest.mark.parametrize("kind", [*KINDS, "key"])
def test_nothing_is_claimed_after_a_pause(store: Store, every: Every, kind: ControlKind) -> None:
    name = {"queue": "q", "task": TASK, "key": "k"}[kind]
    limited = Limited(store, "queue")

    def setup() -> list[list[Step]]:
        store.clear()
        store.enqueue(key="k")
        assert store.admit("k") == 1
        pause = _alone(
            lambda: controls.pause(
                store.target, kind, name, actor="ada", reason=None, until=None, now=store.now
            )
        )
        return [pause, [begin, _stopped(limited), commit]]

    def after(answers: list[list[Any]]) -> None:
        _, (_, (behind, claimed), _) = answers
        assert len(claimed) == (not behind)
        assert limited.take(store.register()) == []
        assert store.count("job") == 1

    every.order(setup, after)


@pytest.mark.slow
def test_a_lost_worker_s_room_is_taken_once(store: Store, every: Every) -> None:
    """While it wakes up and settles, another takes the job back and a third claims."""
    limited = Limited(store, "queue")
    lost: list[Claim] = []

    def setup() -> list[list[Step]]:
        limited.make(3, concurrency=1)
        lost[:] = limited.take(store.register(lease=5))
        store.advance(6)
        done = [Settled(lost[0], verdict("succeed"))]
        settles = _alone(lambda: jobs.finish(store.target, done, store.now))
        lock, claim, end = limited.claims(store.register())
        return [settles, limited.rescues(), [lock, does(claim, end)]]

    def within() -> None:
        assert limited.running <= 1

    def after(answers: list[list[Any]]) -> None:
        (untouched, _), (rescued, _), _ = answers
        assert (len(untouched), len(rescued)) in ((0, 0), (1, 1)), "settled once, by one of them"
        limited.take(store.register())
        assert limited.running == 1
        assert store.count("job") + store.count("archive") == 3
        (row,) = store.rows("select claim >> 32 as claims from job where state = 'x'")
        assert row["claims"] in (1, 2)

    assert every.order(setup, after, within) >= 60


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ENDS)
def test_a_token_is_spent_by_a_start_and_by_nothing_else(
    store: Store, every: Every, kind: ControlKind, end: str
) -> None:
    limited = Limited(store, kind)

    def setup() -> list[list[Step]]:
        limited.make(6, rate="1/10s", burst=2)
        return [
            limited.claims(store.register()),
            limited.claims(store.register(), ENDS[end]),
        ]

    def after(_: object) -> None:
        assert limited.running <= 2
        assert limited.spent == 10.0 * limited.running
        limited.take(store.register())  # a start that was rolled back has cost nothing
        assert (limited.running, limited.spent) == (2, 20.0)
        store.now += timedelta(seconds=10)
        assert len(limited.take(store.register())) == 1

    every.order(setup, after)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ENDS)
def test_a_limit_that_is_set_while_its_pause_ends_stays(
    store: Store, every: Every, kind: ControlKind, end: str
) -> None:
    """Resuming removes a row of which nothing else is said, and a limit is something else."""
    limited = Limited(store, kind)

    def setup() -> list[list[Step]]:
        limited.make(0)
        store.pause(limited.name, kind)
        resume = _alone(lambda: controls.resume(store.target, kind, limited.name, store.now))
        return [[*limited.sets(Limit(concurrency=3))[:-1], ENDS[end]], resume]

    def after(_: object) -> None:
        rows = store.run(controls.read(store.now))
        assert [(row.concurrency, row.paused) for row in rows] == (
            [(3, False)] if end == "commit" else []
        )

    every.order(setup, after)
