"""Jobs that a cursor is past: they committed late, or their queue was paused meanwhile.

The planner's decisions are pure but for the time, which these tests turn by hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway import Headway
from headway.engine.claiming import limits, scan
from headway.engine.claiming import planner as claiming
from headway.engine.claiming.planner import ClaimPlan, ClaimPlanner
from headway.store.rows import Claim, Lane, Lanes

_POLL = 5.0


@dataclass(frozen=True)
class Ready:
    """A ready job: its place, and when it is there to be seen."""

    seq: int
    handler: str = "t"
    priority: int = 0
    queue: str = "default"
    visible_at: float = 0.0

    def claim(self) -> Claim:
        return Claim(
            str(self.seq), 1, self.handler, "", 1, 5, self.queue, self.priority, self.seq,
            None, "{}", None, None, None,
        )  # fmt: skip


class World:
    """The table of ready jobs, and one worker that claims from it as the job loop does.

    A claim takes `slow` seconds of a clock that nothing else moves; a job is done with the next claim.
    """

    def __init__(self, planner: ClaimPlanner, jobs: list[Ready], *, free: int, slow: float) -> None:
        self.time = 1000.0
        self.planner = planner
        self.waiting = sorted(jobs, key=lambda job: job.seq)
        self.running = Counter[str]()
        self.slots = free
        self.free = free
        self.slow = slow
        self.claimed: list[Ready] = []
        self.most_running = Counter[str]()

    def visible(self) -> list[Ready]:
        return [job for job in self.waiting if job.visible_at <= self.time - 1000.0]

    @staticmethod
    def lanes(jobs: list[Ready]) -> list[Lane]:
        return sorted({Lane(job.queue, job.priority) for job in jobs})

    def turn(self) -> None:
        """One claim, or the rest until the next."""
        plan = _next(self.planner, self.free, self.running)
        if isinstance(plan, ClaimPlan):
            self.serve(plan)
        else:
            assert plan is not None, "something is always free here"
            self.time += max(plan, 0.001)

    def serve(self, plan: ClaimPlan) -> None:
        plan.began = self.time
        visible = self.visible()
        newest = max((job.seq for job in [*visible, *self.claimed]), default=0)
        taken: list[Ready] = []
        for share in plan.shares:
            before = len(taken)
            for ask in share.lines:
                found = [
                    job
                    for job in visible
                    if (job.queue, job.priority) == (share.queue, ask.priority)
                    and job.handler in ask.handlers
                    and job.seq > ask.cursor
                ]
                taken += found[: min(ask.most, before + share.most - len(taken))]
        self.waiting = [job for job in self.waiting if job not in taken]
        self.claimed += taken
        self.time += self.slow
        claims = [job.claim() for job in taken]
        seen = Lanes(newest, self.lanes(visible)) if plan.scan else None
        self.planner.learn(plan, claims, lanes=seen, controls=[] if plan.scan else None)
        for job in taken:
            self.running[job.handler] += 1
            self.most_running[job.handler] = max(
                self.most_running[job.handler], self.running[job.handler]
            )
        assert sum(self.running.values()) <= self.slots
        for job in taken:  # done: its slot is free
            self.running[job.handler] -= 1

    def until_claimed(self, job: Ready) -> None:
        for _ in range(2000):
            if job in self.claimed:
                return
            self.turn()
        raise AssertionError(f"{job} was never claimed; asked until {self.time}")


def _next(planner: ClaimPlanner, free: int, running: Counter[str]) -> ClaimPlan | float | None:
    return planner.next(free, lambda _: 0, running.__getitem__, _POLL)


def _planner(
    queues: dict[str, int], handlers: list[str], slots_of: dict[str, int], batch: int
) -> ClaimPlanner:
    return ClaimPlanner(queues, {}, handlers, slots_of, batch)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[World]]:
    """Put a world in it, and its time is what the planner sees."""
    yield from _clock(monkeypatch)


def _clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[World]]:
    worlds: list[World] = []

    def monotonic() -> float:
        return worlds[0].time if worlds else 1000.0

    monkeypatch.setattr(claiming, "monotonic", monotonic)
    monkeypatch.setattr(limits, "monotonic", monotonic)
    monkeypatch.setattr(scan, "monotonic", monotonic)
    yield worlds


def test_a_backlog_found_before_the_cursor_is_read_on_from_there(clock: list[World]) -> None:
    planner = _planner({"default": 1}, ["t"], {}, batch=10)
    world = World(planner, [Ready(1000)], free=10, slow=1.0)
    clock.append(world)
    world.until_claimed(world.waiting[0])
    world.waiting = [Ready(seq) for seq in range(1, 31)]
    world.time += 100.0
    planner.hint()

    def plan() -> ClaimPlan:
        found = _next(planner, 10, Counter())
        assert isinstance(found, ClaimPlan)
        return found

    look = plan()
    assert look.scan
    world.serve(look)
    from_start = plan()
    assert [ask.cursor for share in from_start.shares for ask in share.lines] == [0]
    world.serve(from_start)
    assert [job.seq for job in world.claimed[1:]] == list(range(1, 11))
    following = plan()
    assert not following.scan, "the scan took seconds: the next is far away"
    assert [ask.cursor for share in following.shares for ask in share.lines] == [10]


def test_a_late_job_of_a_task_with_slots_is_claimed_below_the_highest_priority(
    clock: list[World],
) -> None:
    """A full scan asks for such a task in one lane only; the others are read on from their start."""
    planner = _planner({"default": 1}, ["wide", "narrow"], {"narrow": 1}, batch=100)
    urgent = Ready(100, "narrow", priority=9)
    early = Ready(101, "narrow")
    late = Ready(7, "narrow", visible_at=500.0)
    world = World(planner, [urgent, early, late], free=10, slow=1.0)
    clock.append(world)
    world.until_claimed(early)
    assert urgent in world.claimed
    world.time = 1500.0
    planner.hint(Lane("default", 0))
    world.until_claimed(late)
    assert world.most_running["narrow"] == 1


def test_lines_that_were_not_come_to_cost_no_budget(clock: list[World]) -> None:
    """Urgent jobs fill every claim for long. Rows that were not read meanwhile delay no scan."""
    planner = _planner({"default": 1}, ["t"], {}, batch=1)
    urgent = [Ready(100 + n, priority=5) for n in range(40)]
    world = World(planner, [*urgent, Ready(500)], free=1, slow=0.1)
    clock.append(world)
    world.until_claimed(world.waiting[-1])
    late = Ready(7)
    world.waiting.append(late)
    planner.hint(Lane("default", 0))
    began = world.time
    world.until_claimed(late)
    assert world.time - began < 10.0, (
        "a scan and a reading of a tenth of a second each: twenty of both"
    )


ready = st.builds(
    Ready,
    seq=st.integers(1, 60),
    handler=st.sampled_from(["wide", "narrow", "other"]),
    priority=st.sampled_from([-1, 0, 5]),
    queue=st.sampled_from(["default", "mail"]),
    visible_at=st.sampled_from([0.0, 0.0, 1.0, 30.0, 200.0]),
)


@given(
    st.lists(ready, max_size=25, unique_by=lambda job: job.seq),
    st.integers(1, 3),
    st.integers(1, 4),
    st.sampled_from([0.001, 0.05, 2.0]),
    st.booleans(),
)
def test_whatever_becomes_visible_when_is_claimed_in_the_end_and_within_its_slots(
    jobs: list[Ready], slots: int, free: int, slow: float, all_have_slots: bool
) -> None:
    slots_of = {"narrow": slots, "other": 1} | ({"wide": 2} if all_have_slots else {})
    planner = _planner({"default": 1, "mail": 3}, ["wide", "narrow", "other"], slots_of, batch=3)
    world = World(planner, jobs, free=free, slow=slow)
    with pytest.MonkeyPatch.context() as patch:
        worlds = next(_clock(patch))
        worlds.append(world)
        for job in jobs:
            world.until_claimed(job)
    assert sorted(job.seq for job in world.claimed) == sorted(job.seq for job in jobs)
    for handler, most in slots_of.items():
        assert world.most_running[handler] <= most


async def test_a_job_that_commits_late_is_claimed_by_a_worker_that_lives_on(
    hw: Headway, dsn: str, start
) -> None:
    """Its transaction drew its place before those of jobs that have run since."""

    @hw.task(slots=1)
    async def narrow(n: int) -> int:
        return n

    @hw.task
    async def wide() -> None: ...

    start(concurrency=5)
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        late = await narrow.using(conn=conn).enqueue(1)
        for priority in (9, 0):  # the cursors of both lanes pass the late one's place
            passed = await narrow.using(priority=priority).enqueue(2)
            assert await passed.result(timeout="60s") == 2
            await (await wide.using(priority=priority).enqueue()).result(timeout="60s")
        await conn.commit()
    assert await late.result(timeout="60s") == 1
