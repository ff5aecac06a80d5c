"""Very many queues on one worker: one claim for all that have something, none for the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from headway import Headway
from headway.core import codec
from tests.queues.conftest import Sent
from tests.sql.hand import Hand
from tests.support import DEADLINE, Running, eventually

CLAIM, LOOK = "moves/claim_plain", "reads/lanes"


@pytest.fixture
def ran() -> Counter[str]:
    return Counter[str]()


@pytest.fixture
def task(hw: Headway, ran: Counter[str]):
    @hw.task
    async def task(queue: str) -> str:
        ran[queue] += 1
        return queue

    return task


async def test_all_lanes_with_work_are_claimed_in_one_statement(
    hw: Headway, task, ran: Counter[str], sent: Sent
) -> None:
    queues = {f"q{n}": 1 for n in range(30)}
    await task.enqueue_many(
        task.using(queue=queue, priority=priority).call(queue)
        for queue in queues
        for priority in (0, 5)
    )
    await hw.run_until_idle(queues=queues, concurrency=100)
    assert ran == dict.fromkeys(queues, 2)
    assert all(sum(one.name == CLAIM for one in trip) <= 1 for trip in sent.trips)
    claims = [one for trip in sent.trips for one in trip if one.name == CLAIM]
    asked = [codec.decode(claim.params["shares"]) for claim in claims]
    assert len(asked[0]) == 30, "every queue"
    assert {tuple(line["priority"] for line in share["lines"]) for share in asked[0]} == {(5, 0)}, (
        "every lane"
    )
    assert len(claims) <= 4, "one for all of it, and one to learn that there is no more"


async def test_a_hundred_queues_with_work_cost_a_claim_for_many_jobs_not_one_for_each_queue(
    hw: Headway, task, ran: Counter[str], sent: Sent
) -> None:
    queues = {f"q{n}": 1 for n in range(100)}
    await task.enqueue_many(
        task.using(queue=queue).call(queue) for _ in range(10) for queue in queues
    )
    await hw.run_until_idle(queues=queues, concurrency=200)
    assert ran == dict.fromkeys(queues, 10)
    assert sent.count(CLAIM) <= 60, "of 1,000 jobs in 100 queues"


async def test_an_idle_worker_with_a_thousand_queues_looks_once_for_all_of_them(
    hw: Headway, task, sent: Sent, start: Callable[..., Running], hand: Hand
) -> None:
    start(queues={f"q{n}": 1 for n in range(1_000)}, listen=False, poll_alone="1ms")
    await eventually(lambda: sent.count(LOOK) >= 3)
    sent.clear()
    await eventually(lambda: sent.count(LOOK) >= 8)
    assert sent.count(CLAIM) == 0, "what is empty is not asked"
    trips = [trip for trip in sent.trips if trip[0].name == LOOK]
    assert all(len(trip) == 2 for trip in trips), "the lanes, the pauses, and nothing else"
    # It receives notifications: it finds the queue that has a job.
    assert await (await task.using(queue="q777").enqueue("q777")).result(timeout=DEADLINE) == "q777"


async def test_an_idle_worker_that_listens_asks_nothing_until_it_hears_of_something(
    hw: Headway, task, sent: Sent, start: Callable[..., Running], hand: Hand
) -> None:
    start(queues={f"q{n}": 1 for n in range(1_000)}, poll="1h", poll_alone="1h")
    for queue in ("q1", "q999"):
        sent.clear()
        job = await task.using(queue=queue).enqueue(queue)
        assert await job.result(timeout=DEADLINE) == queue
        claims = [one for trip in sent.trips for one in trip if one.name.startswith("moves/claim")]
        asked = [codec.decode(claim.params["shares"]) for claim in claims]
        assert {share["queue"] for shares in asked for share in shares} <= {"q1", "q999"}
        assert asked[-1][0]["queue"] == queue


@pytest.mark.parametrize("every", [False, True], ids=["named", "star"])
async def test_a_thousand_queues_with_work_are_all_served(
    hw: Headway, task, ran: Counter[str], sent: Sent, every: bool
) -> None:
    queues = {f"q{n}": 1 for n in range(1_000)}
    await task.enqueue_many(
        task.using(queue=queue).call(queue) for _ in range(2) for queue in queues
    )
    await hw.run_until_idle(queues={"*": 1} if every else queues, concurrency=300)
    assert ran == dict.fromkeys(queues, 2)
    assert sent.count(CLAIM) < 200


async def test_one_large_queue_among_a_thousand_does_not_hold_up_the_small_ones(
    hw: Headway, task
) -> None:
    ran: list[str] = []

    @hw.task
    async def note(queue: str) -> None:
        ran.append(queue)

    queues = {f"q{n}": 1 for n in range(200)}
    await note.using(queue="q0").enqueue_many([{"queue": "q0"}] * 2_000)
    await note.enqueue_many(note.using(queue=queue).call(queue) for queue in queues)
    await hw.run_until_idle(queues=queues, concurrency=50)
    last = max(ran.index(queue) for queue in queues)
    assert last < 600, "the small ones are through while most of the large one still waits"
