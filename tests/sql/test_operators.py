from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from headway import Headway, Job, Limit, Schedule
from headway.errors import JobCancelled
from tests.sql.hand import Hand
from tests.support import DEADLINE, Running, eventually


def _failed(hand: Hand, **options: Any) -> dict[str, Any]:
    claimed = hand.held("greet", {"n": 1}, **options)
    hand.settle("fail", claimed, "no route", again=False)
    return claimed


def test_a_failed_job_runs_again_with_fresh_attempts(hand: Hand) -> None:
    failed = _failed(hand, max_attempts=3)
    with hand.listening() as heard:
        assert hand.call("retry", failed["id"]) is True
        assert heard() == ["ready 0 default"]
    (again,) = hand.claim()
    assert (again["id"], again["attempt"], again["claim"] >> 32) == (failed["id"], 1, 2)
    assert again["input"] == {"n": 1}


def test_a_scheduled_job_runs_now(hand: Hand) -> None:
    made = hand.enqueue(delay="1 hour")
    assert hand.call("retry", made) is True
    assert hand.state(made) == "ready"


def test_a_flow_can_go_back_to_an_earlier_step(hand: Hand) -> None:
    claimed = hand.held("order", {"order": 42}, step="reserve")
    hand.settle("advance", claimed, "ship", {"box": 1})
    (claimed,) = hand.claim()
    hand.settle("fail", claimed, "no van", again=False)
    assert hand.call("retry", claimed["id"], "pack") is False
    assert hand.call("retry", claimed["id"], "reserve") is True
    (again,) = hand.claim()
    assert (again["step"], again["input"]) == ("reserve", {"order": 42})


def test_a_unique_key_that_was_taken_meanwhile_is_given_up(hand: Hand) -> None:
    failed = _failed(hand, unique_key="u")
    hand.enqueue(unique_key="u")
    assert hand.call("retry", failed["id"]) is True
    assert hand.job(failed["id"])["unique_key"] is None


def test_there_is_nothing_to_repeat(hand: Hand) -> None:
    running = hand.held()
    done = hand.held(queue="q")
    hand.settle("complete", done)
    ready = hand.enqueue(queue="r")
    before = hand.everything()
    for job_id in (running["id"], done["id"], ready, uuid4(), None):
        assert hand.call("retry", job_id) is False
    assert hand.everything() == before


def test_what_waits_is_cancelled_and_what_runs_is_asked_to_stop(hand: Hand) -> None:
    running = hand.held()
    waiting = hand.enqueue()
    with hand.listening() as heard:
        assert hand.call("cancel", running["id"]) is True
        assert heard() == [f"cancel {running['id']}"]
    assert hand.value("select job_id from stop_request") == running["id"]
    assert hand.call("cancel", waiting) is True
    assert hand.state(waiting) == "cancelled"
    assert hand.call("cancel", waiting) is False
    assert hand.call("cancel", uuid4()) is False


def test_the_input_of_what_is_not_running_can_be_corrected(hand: Hand) -> None:
    failed = _failed(hand)
    waiting = hand.enqueue("greet", {"n": 1}, delay="1 hour")
    running = hand.held("greet", {"n": 1}, queue="q")
    for job_id in (failed["id"], waiting):
        assert hand.call("edit", job_id, {"n": 2}) is True
        assert hand.value("select input from jobs where id = %s", job_id) == {"n": 2}
    for job_id in (running["id"], uuid4()):
        assert hand.call("edit", job_id, {"n": 2}) is False
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="not a JSON object"):
        hand.call("edit", waiting, [1])


def test_a_queue_is_paused_and_opened(hand: Hand) -> None:
    assert hand.call("pause", "mail", "deploy") is True
    paused = hand.row("select * from queues")
    user = hand.value("select current_user")
    assert (paused["queue"], paused["paused"], paused["pause_reason"]) == ("mail", True, "deploy")
    assert paused["paused_by"] == user
    assert hand.call("pause", "mail", "provider down", actor="ada") is False
    again = hand.row("select * from queues")
    assert (again["pause_reason"], again["paused_by"]) == ("provider down", "ada")
    assert again["paused_at"] == paused["paused_at"]
    with hand.listening() as heard:
        assert hand.call("resume", "mail") is True
        assert heard() == ["control"]
    assert hand.call("resume", "mail") is False
    assert hand.call("resume", "unheard-of") is False


# -- an operator's transaction that stays open while a worker runs (R1, G14) -------------------------


class Scene:
    """A worker of the engine that runs a job until it is told to go on, and other jobs in parallel."""

    def __init__(self, hw: Headway) -> None:
        self.runs, self.go_on = asyncio.Event(), asyncio.Event()
        scene = self

        @hw.task
        async def long() -> str:
            scene.runs.set()
            await scene.go_on.wait()
            return "done"

        @hw.task
        async def short(n: int) -> int:
            return n

        self.long, self.short = long, short
        self.job: Job[str]

    async def begin(self) -> None:
        self.job = await self.long.enqueue()
        await asyncio.wait_for(self.runs.wait(), DEADLINE)

    async def others_run(self) -> None:
        """Jobs of the same worker are claimed, run and settled, one after another."""
        for n in range(3):
            assert await (await self.short.enqueue(n)).result(timeout=DEADLINE) == n


@pytest.fixture
def operator(dsn: str, schema: str) -> Iterator[Hand]:
    """A session with its own transactions, on the schema of the test's app."""
    with closing(Hand(dsn, schema)) as hand:
        yield hand


async def test_r1_a_cancel_that_stays_open_holds_up_nobody(
    hw: Headway, start: Callable[..., Running], operator: Hand
) -> None:
    scene = Scene(hw)
    start()
    await scene.begin()
    with operator.conn.transaction():
        assert operator.call("cancel", scene.job.id) is True
        await scene.others_run()
        assert (await scene.job.status()).state == "running"
    with pytest.raises(JobCancelled):
        await scene.job.result(timeout=DEADLINE)
    assert not scene.go_on.is_set()


async def test_r1_a_job_ends_while_its_cancel_stays_open(
    hw: Headway, start: Callable[..., Running], operator: Hand
) -> None:
    """Nobody was asked yet: the end that comes first counts, and nobody waits for the other."""
    scene = Scene(hw)
    start()
    await scene.begin()
    with operator.conn.transaction():
        assert operator.call("cancel", scene.job.id) is True
        scene.go_on.set()
        assert await scene.job.result(timeout=DEADLINE) == "done"
        await scene.others_run()
    assert (await scene.job.status()).state == "succeeded"


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        "set_limit(task => 'long', concurrency => 2)",
        "set_limit(task => 'long', concurrency => 5, rate => '90/s')",
        "reset_limit(task => 'long')",
        "pause(task => 'long')",
    ],
)
async def test_r1_a_change_of_a_limit_that_stays_open_holds_up_nobody(
    hw: Headway, start: Callable[..., Running], operator: Hand, change: str, limited: bool
) -> None:
    """Until it commits the old limit holds, and jobs under it start and end."""
    scene = Scene(hw)
    if limited:
        operator.call("set_limit", task="long", concurrency=5, rate="100/s")
    start()
    await scene.begin()
    with operator.conn.transaction():
        operator.conn.execute(f"select {change}")  # type: ignore[arg-type]
        await scene.others_run()
        scene.runs.clear()
        second = await scene.long.enqueue()
        await asyncio.wait_for(scene.runs.wait(), DEADLINE)
        scene.go_on.set()
        assert await scene.job.result(timeout=DEADLINE) == "done"
        assert await second.result(timeout=DEADLINE) == "done"


@pytest.mark.parametrize(
    "change", ["set_limit(task => 'work', rate => '9/s')", "pause_schedule('tick')"]
)
async def test_r1_a_change_that_stays_open_keeps_no_worker_from_starting(
    dsn: str, schema: str, operator: Hand, change: str
) -> None:
    """The limit and the schedule of the new code hold as soon as the transaction has ended."""

    def app(concurrency: int, spec: str) -> tuple[Headway, Any]:
        hw = Headway(dsn, schema=schema)

        @hw.task(limit=Limit(concurrency=concurrency), schedule=Schedule(spec, name="tick"))
        async def work() -> str:
            return "done"

        return hw, work

    older, _ = app(3, "@every 1h")
    await older.run_until_idle()
    newer, work = app(4, "@every 2h")
    with operator.conn.transaction():
        operator.conn.execute(f"select {change}")  # type: ignore[arg-type]
        worker = Running(newer.worker(poll="1s", grace="1s"))
        assert await (await work.enqueue()).result(timeout=DEADLINE) == "done"
    declared = "select declared ->> 'concurrency' from control where name = 'work'"
    await eventually(lambda: operator.value(declared) == "4")
    await eventually(lambda: operator.value("select spec from schedule") == "@every 2h")
    await worker.stop()
    await newer.close()
    await older.close()


async def test_r1_a_job_that_ran_when_a_limit_was_set_counts_under_it(
    hw: Headway, start: Callable[..., Running], operator: Hand
) -> None:
    """Its own worker marks it, when it learns of the limit."""
    scene = Scene(hw)
    start()
    await scene.begin()
    operator.call("set_limit", task="long", concurrency=1)
    row = "select limited from job where id = %s"
    await eventually(lambda: operator.value(row, scene.job.id))
    behind = await scene.long.enqueue()
    await scene.others_run()
    assert (await behind.status()).state == "ready"
    scene.go_on.set()
    assert await behind.result(timeout=DEADLINE) == "done"


async def test_r1_a_drain_that_stays_open_holds_up_nobody(
    hw: Headway, start: Callable[..., Running], operator: Hand
) -> None:
    scene = Scene(hw)
    worker = start(lease="3s")
    await scene.begin()
    number = operator.value("select id from worker")
    seen = "select seen_at from worker"
    with operator.conn.transaction():
        assert operator.call("drain", number) is True
        before = operator.value(seen)
        await scene.others_run()
        await eventually(lambda: operator.value(seen) > before)
        assert not worker.done(), "its lease is renewed, and it goes on"
    scene.go_on.set()
    await eventually(worker.done)
    assert await scene.job.result(timeout=DEADLINE) == "done"
