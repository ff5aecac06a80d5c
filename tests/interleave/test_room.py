"""Room under a key, whoever frees it, takes it or joins the line at once.

The engine sends what is here one step each (settle, lock the keys, admit, commit) in one round trip; on
the server they are statements like others, and anything may happen in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from headway.store import jobs
from headway.store.documents import Settled
from headway.store.rows import Claim
from headway.store.statement import Statement
from tests.interleave.driver import Every, Step, begin, commit, does, rollback, says
from tests.store.store import Store, ask, new_job, shares, verdict

KEY = "k"


@dataclass
class Line:
    """One key: some of its jobs run, the others stand in line."""

    store: Store
    limit: int = 1
    ordered: bool = False
    running: list[Claim] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)
    most: int = 3
    """Attempts."""

    def make(self, running: int, blocked: int, late: int = 0, *, lease: float = 30) -> Line:
        """The last `late` of the blocked joined when nobody looked: they may have room."""
        self.store.clear()
        ids = [self.join() for _ in range(running + blocked)]
        self.admit()
        self.running = self.store.claim(self.store.register(lease=lease), room=running)
        assert len(self.running) == running
        self.blocked = ids[running:] + [self.join() for _ in range(late)]
        return self

    def new(self) -> Any:
        key = {"key": KEY, "key_limit": self.limit, "ordered": self.ordered}
        return new_job(max_attempts=self.most, **key)

    def join(self) -> str:
        job = self.new()
        self.store.run(jobs.enqueue(self.store.target, [job], self.store.now))
        return job.id

    def admit(self) -> None:
        """As an admitter does that was told, or looks at every line."""
        with self.store.conn.transaction():
            self.store.run(jobs.lock_keys([KEY]))
            self.store.run(jobs.admit(self.store.target, [KEY], self.store.now))

    @property
    def holding(self) -> list[str]:
        rows = self.store.rows("select id::text from job where holds order by seq")
        return [row["id"] for row in rows]

    @property
    def waiting(self) -> list[str]:
        rows = self.store.rows("select id::text from job where state = 'b' order by seq")
        return [row["id"] for row in rows]

    def within_the_limit(self) -> None:
        assert len(self.holding) <= self.limit

    def is_used_up(self) -> None:
        """Nobody waits who could run."""
        assert len(self.holding) == self.limit or not self.waiting

    # -- what a session does ------------------------------------------------------------------------

    def settles(self, claim: Claim, kind: Any = "succeed", delay: float = 0.0) -> list[Step]:
        settled = [Settled(claim, verdict(kind, delay=delay))]

        def statement() -> Statement[Any]:
            if kind == "succeed":
                return jobs.finish(self.store.target, settled, self.store.now)
            return jobs.requeue(self.store.target, 0, settled, self.store.now)

        return [does(begin, says(statement)), *self.admits()]

    def admits(self) -> list[Step]:
        lock = does(_begun, says(lambda: jobs.lock_keys([KEY])))
        return [lock, says(lambda: jobs.admit(self.store.target, [KEY], self.store.now)), commit]

    def alone(self, statement: Callable[[], Statement[Any]], end: Step = commit) -> list[Step]:
        """A transaction of one statement that stays open for a while."""
        return [does(begin, says(statement)), end]

    def cancels(self, job_id: str) -> list[Step]:
        return self.alone(lambda: jobs.cancel(self.store.target, UUID(job_id), self.store.now))

    def rescues(self) -> list[Step]:
        return self.alone(lambda: jobs.rescue(self.store.target, 99, self.store.now))


def _begun(session: Any) -> None:
    if session.conn.info.transaction_status.name == "IDLE":
        begin(session)


def test_two_who_finish_hand_on_both_their_rooms(store: Store, every: Every) -> None:
    line = Line(store, limit=2)

    def setup() -> list[list[Step]]:
        line.make(running=2, blocked=3)
        return [line.settles(claim) for claim in line.running]

    def after(_: object) -> None:
        assert line.holding == line.blocked[:2]

    assert every.order(setup, after, line.within_the_limit) >= 6


@pytest.mark.parametrize("limit", [1, 2])
def test_room_is_given_once_by_who_finishes_and_by_who_looks(
    store: Store, every: Every, limit: int
) -> None:
    """Nobody has to look again: whoever frees the room hands it on himself."""
    line = Line(store, limit=limit)

    def setup() -> list[list[Step]]:
        line.make(running=limit, blocked=2)
        return [line.settles(line.running[0]), line.admits()]

    def after(_: object) -> None:
        line.is_used_up()

    assert every.order(setup, after, line.within_the_limit) >= 6


@pytest.mark.parametrize("limit", [1, 2])
def test_two_who_look_at_once_let_in_no_more_than_one_would(
    store: Store, every: Every, limit: int
) -> None:
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


def test_who_joins_late_is_let_in_by_the_look_that_its_commit_asks_for(
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


@pytest.mark.parametrize("attempts", [1, 3], ids=["ends", "runs again"])
def test_a_lost_holder_is_settled_or_rescued_and_its_room_given_once(
    store: Store, every: Every, attempts: int
) -> None:
    """Its worker wakes up and settles while others take the job back."""
    line = Line(store, most=attempts)

    def setup() -> list[list[Step]]:
        line.make(running=1, blocked=2, lease=5)
        store.advance(6)
        return [line.settles(line.running[0]), line.rescues()]

    def after(answers: list[list[Any]]) -> None:
        (lost, *_), ((again, ended), _) = answers
        assert (len(lost), again + ended) in ((0, 0), (1, 1)), "settled once, by one of them"
        line.admit()  # whoever rescued rings for it
        assert line.holding == [line.running[0].id if again else line.blocked[0]]

    assert every.order(setup, after, line.within_the_limit) >= 6


def test_a_cancelled_holder_frees_its_room_once(store: Store, every: Every) -> None:
    """It was let in and not claimed yet, while a look is under way."""
    line = Line(store, limit=2)

    def setup() -> list[list[Step]]:
        line.make(running=1, blocked=3)
        (holder,) = set(line.holding) - {line.running[0].id}
        return [line.cancels(holder), line.settles(line.running[0])]

    def after(_: object) -> None:
        line.admit()  # 'room' was rung
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
def test_nobody_passes_the_first_of_an_ordered_line_while_it_is_changed(
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
    """The room may have been freed while the first could be neither let in nor passed."""
    line = Line(store, ordered=True)
    with store.listening() as heard:

        def setup() -> list[list[Step]]:
            line.make(running=1, blocked=2)
            heard()
            return [change(line), line.settles(line.running[0])]

        def after(_: object) -> None:
            assert line.holding or f"room {KEY}" in heard()

        every.order(setup, after, line.within_the_limit)


def test_a_claim_in_the_same_transaction_takes_what_was_let_in(store: Store, every: Every) -> None:
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
