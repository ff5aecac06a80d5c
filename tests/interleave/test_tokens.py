"""Tokens of single keys (`Limit(key=..., rate=...)`), while sessions admit, settle or take jobs back."""

from __future__ import annotations

from typing import Any

import pytest

from headway.core.limits import BY_LIMIT
from headway.store.documents import Settled
from headway.store.rows import Claim
from headway.store.statements import jobs
from tests.interleave.driver import Every, Step, begin, commit, does, rollback, says
from tests.store.store import TASK, Store, ask, new_job, shares, verdict

KEY = f"{TASK}/tenant"
ENDS = {"commit": commit, "rollback": rollback}


class Rated:
    """A key with a token every ten seconds; some of its jobs may run."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def make(
        self, blocked: int, *, burst: int = 1, running: int = 0, ready: int = 0, lease: float = 99
    ) -> list[Claim]:
        self.store.clear()
        self.store.limit(TASK, "keys", rate="1/10s", burst=burst)
        self._join(running)
        claims = self.store.claim(self.store.register(lease=lease))
        assert len(claims) == running
        self._join(ready)
        more = [new_job(key=KEY, key_limit=BY_LIMIT) for _ in range(blocked)]
        self.store.run(jobs.enqueue(self.store.target, more, self.store.now))
        return claims

    def _join(self, count: int) -> None:
        made = [new_job(key=KEY, key_limit=BY_LIMIT) for _ in range(count)]
        self.store.run(jobs.enqueue(self.store.target, made, self.store.now))
        assert self.store.admit(KEY) == count

    def admits(self, end: Step = commit) -> list[Step]:
        lock = does(begin, says(lambda: jobs.lock_keys([KEY])))
        return [lock, says(lambda: jobs.admit(self.store.target, [KEY], self.store.now)), end]

    def claims(self, end: Step = commit) -> list[Step]:
        worker = self.store.register()
        claim = says(lambda: jobs.claim(worker, shares([ask(room=1)]), self.store.now))
        return [does(begin, claim), end]

    @property
    def holding(self) -> int:
        return self.store.one("select count(*) as n from job where holds")["n"]

    @property
    def started(self) -> int:
        return self.store.one("select count(*) as n from job where state = 'x'")["n"]

    @property
    def ready(self) -> int:
        return self.store.one("select count(*) as n from job where state = 'r'")["n"]

    @property
    def taken(self) -> int:
        """How many tokens starts have taken of those that have not been earned again."""
        noted = self.store.one("select coalesce(sum(count), 0) as n from start")["n"]
        rows = self.store.rows("select spent_until from bucket")
        spent = sum((row["spent_until"] - self.store.now).total_seconds() for row in rows)
        return noted + round(max(0.0, spent) / 10)


@pytest.mark.parametrize("burst", [1, 2])
@pytest.mark.parametrize("end", ENDS)
def test_two_admissions_keep_each_token_for_one(
    store: Store, every: Every, burst: int, end: str
) -> None:
    rated = Rated(store)

    def setup() -> list[list[Step]]:
        rated.make(4, burst=burst)
        return [rated.admits(), rated.admits(ENDS[end])]

    def within() -> None:
        assert rated.ready <= burst

    def after(_: object) -> None:
        assert rated.ready == burst, "the remaining session found what the other left"
        store.advance(100)
        assert store.admit(KEY) == 0

    every.order(setup, after, within)


@pytest.mark.parametrize("end", ENDS)
def test_who_claims_while_another_admits_takes_one_token(
    store: Store, every: Every, end: str
) -> None:
    """For other admissions a job is ready, and its token kept, until its start is committed."""
    rated = Rated(store)

    def setup() -> list[list[Step]]:
        rated.make(3, burst=2, ready=1)
        return [rated.claims(ENDS[end]), rated.admits(), rated.admits()]

    def within() -> None:
        assert rated.ready + rated.taken <= 2
        assert rated.taken == rated.started

    def after(_: object) -> None:
        within()
        store.admit(KEY)
        assert rated.taken == (end == "commit")
        assert rated.ready == 2 - rated.taken, "no token is lost either"

    every.order(setup, after, within)


def test_two_claims_take_a_token_each(store: Store, every: Every) -> None:
    rated = Rated(store)

    def setup() -> list[list[Step]]:
        rated.make(3, burst=2, ready=2)
        return [rated.claims(), rated.claims(), rated.admits()]

    def within() -> None:
        assert rated.ready + rated.taken <= 2

    def after(_: object) -> None:
        assert (rated.started, rated.taken) == (2, 2)
        assert store.admit(KEY) == 0
        store.advance(10)
        assert store.admit(KEY) == 1

    every.order(setup, after, within)


@pytest.mark.parametrize("kind", ["retry", "release", "succeed"])
def test_a_job_that_runs_again_takes_another_token_and_one_that_has_not_run_gives_its_own_back(
    store: Store, every: Every, kind: Any
) -> None:
    """While someone else looks at the line."""
    rated = Rated(store)

    def setup() -> list[list[Step]]:
        (claim,) = rated.make(1, burst=2, running=1)
        settled = [Settled(claim, verdict(kind))]
        if kind == "succeed":
            settle = says(lambda: jobs.finish(store.target, settled, store.now))
        else:
            settle = says(lambda: jobs.requeue(store.target, 0, settled, store.now))
        _, admit, end = rated.admits()
        lock = says(lambda: jobs.lock_keys([KEY]))
        settle = does(begin, settle)
        return [[settle, lock, admit, end], rated.admits()]

    def after(_: object) -> None:
        # There were two tokens: a running job took one, the first in line keeps the other.
        assert rated.taken == (0 if kind == "release" else 1)
        assert rated.ready == (2 if kind == "release" else 1)
        assert store.admit(KEY) == 0
        assert store.count("start") == 0

    every.order(setup, after)


def test_a_lost_holder_that_runs_again_takes_another_token(store: Store, every: Every) -> None:
    rated = Rated(store)

    def setup() -> list[list[Step]]:
        rated.make(1, burst=2, running=1, lease=5)
        store.eyes.execute("update worker set survived = true")
        store.advance(6)
        rescue = does(begin, says(lambda: jobs.rescue(store.target, 99, store.now)))
        return [[rescue, commit], rated.admits()]

    def after(_: object) -> None:
        store.admit(KEY)  # the rescue sends a notification for it
        assert rated.holding == 1
        assert store.count("job") == 2
        store.advance(4)
        assert store.admit(KEY) == 1, "the token that the lost one took is earned again"

    every.order(setup, after)
