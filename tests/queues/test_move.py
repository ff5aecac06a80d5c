"""`hw.queues.move`: waiting jobs of one queue wait in another, with everything that they had."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from headway import Headway, Key
from headway.errors import ConfigError
from tests.sql.hand import Hand
from tests.support import DEADLINE, Running, eventually


@pytest.fixture
def ran() -> list[int]:
    return []


@pytest.fixture
def note(hw: Headway, ran: list[int]):
    @hw.task(queue="mail")
    async def note(n: int) -> int:
        ran.append(n)
        return n

    return note


async def test_who_serves_the_other_queue_runs_what_was_moved_there(
    hw: Headway, note, ran: list[int], start: Callable[..., Running]
) -> None:
    """With a poll of an hour: the worker was told."""
    start(queues={"other": 1}, poll="1h", poll_alone="1h", concurrency=1)
    await note.using(queue="other").enqueue(-1)
    jobs = [await note.using(priority=n % 2).enqueue(n) for n in range(10)]
    await eventually(lambda: ran == [-1])
    assert await hw.queues.move("mail", "other") == 10
    assert [await job.result(timeout=DEADLINE) for job in jobs] == list(range(10))
    assert [n for n in ran if n % 2 == 0] == [0, 2, 4, 6, 8], "each lane in its order"
    assert [n for n in ran if n % 2] == [-1, 1, 3, 5, 7, 9]
    assert {(await job.status()).queue for job in jobs} == {"other"}


async def test_of_one_task_and_how_many(hw: Headway, note) -> None:
    @hw.task(queue="mail")
    async def other() -> None: ...

    await note.enqueue_many({"n": n} for n in range(4))
    kept = await other.enqueue()
    told: list[int] = []
    assert hw.queues.move_sync("mail", "slow", task="note", on_progress=told.append) == 4
    assert told[-1] == 4
    assert (await kept.status()).queue == "mail"
    assert [row.count for row in await hw.queues.waiting("slow")] == [4]
    assert await hw.queues.move("mail", "slow", task="note") == 0


async def test_a_running_job_stays_where_it_is(
    hw: Headway, hand: Hand, start: Callable[..., Running]
) -> None:
    inside, opened = asyncio.Event(), asyncio.Event()

    @hw.task(queue="mail")
    async def hold() -> str:
        inside.set()
        await opened.wait()
        return "done"

    start(queues={"mail": 1}, concurrency=1)
    first = await hold.enqueue()
    await asyncio.wait_for(inside.wait(), DEADLINE)
    await hold.enqueue_many([{}] * 3)
    assert await hw.queues.move("mail", "other") == 3
    assert (await first.status()).queue == "mail"
    opened.set()
    assert await first.result(timeout=DEADLINE) == "done"


async def test_delays_keep_their_moment_and_keys_their_order(
    hw: Headway, note, ran: list[int], hand: Hand
) -> None:
    ordered = note.using(concurrency_key=Key("tenant", ordered=True))
    jobs = [await ordered.enqueue(n) for n in range(5)]
    later = await note.using(delay="1h").enqueue(99)
    due = (await later.status()).run_at
    assert await hw.queues.move("mail", "other") == 6
    status = await later.status()
    assert (status.state, status.run_at, status.queue) == ("scheduled", due, "other")
    # The rest of the line joins in the old queue: it is one line all the same.
    jobs += [await ordered.enqueue(n) for n in range(5, 8)]
    await hw.run_until_idle(queues={"mail": 1, "other": 1})
    assert ran == list(range(8))


async def test_there_and_back_again_nothing_is_lost(hw: Headway, note, ran: list[int]) -> None:
    await note.enqueue_many({"n": n} for n in range(1_200))
    assert await hw.queues.move("mail", "other") == 1_200
    assert await hw.queues.move("other", "mail") == 1_200
    await hw.run_until_idle(concurrency=1_200, batch=2_000)
    assert ran == list(range(1_200))


async def test_g3_under_claimers_and_moves_every_job_runs_once(
    hw: Headway, hand: Hand, start: Callable[..., Running]
) -> None:
    ran = Counter[int]()

    @hw.task(queue="a")
    async def count(n: int) -> None:
        ran[n] += 1
        await asyncio.sleep(0)

    for _ in range(2):
        start(queues={"a": 1, "b": 1}, concurrency=10)
    for n in range(12):
        await count.enqueue_many({"n": n * 50 + i} for i in range(50))
        await asyncio.gather(hw.queues.move("a", "b"), hw.queues.move("b", "a"))
    await eventually(lambda: hand.value("select count(*) from job") == 0)
    assert ran == dict.fromkeys(range(600), 1)
    assert hand.value("select count(*) from jobs where state = 'succeeded'") == 600


async def test_a_move_to_the_same_queue_or_to_no_name_is_refused(hw: Headway) -> None:
    with pytest.raises(ConfigError, match="queue"):
        await hw.queues.move("mail", "mail")
    with pytest.raises(ConfigError, match="queue ''"):
        await hw.queues.move("mail", "")
