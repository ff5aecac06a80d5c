"""`hw.queues.purge`: what waits ends, what runs goes on, and every job has exactly one end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from headway import Headway
from headway.errors import ConfigError, JobCancelled
from tests.sql.hand import Hand
from tests.support import DEADLINE, Running, eventually


@pytest.fixture
def echo(hw: Headway):
    @hw.task(queue="mail")
    async def echo(n: int) -> int:
        return n

    return echo


async def test_it_says_how_many_and_of_one_task_if_asked_to(hw: Headway, echo, hand: Hand) -> None:
    @hw.task(queue="mail")
    async def other() -> None: ...

    await echo.enqueue_many({"n": n} for n in range(7))
    kept = await other.enqueue()
    elsewhere = await echo.using(queue="elsewhere").enqueue(1)
    assert await hw.queues.purge("mail", task="echo") == 7
    assert await hw.queues.purge("mail", task="echo") == 0
    assert {(await job.status()).state for job in (kept, elsewhere)} == {"ready"}
    assert hw.queues.purge_sync("mail") == 1
    assert hw.queues.purge_sync("no such queue") == 0


async def test_the_preview_is_what_it_does(hw: Headway, echo) -> None:
    await echo.enqueue_many({"n": n} for n in range(3))
    await echo.using(delay="1h").enqueue(1)
    found = await hw.queues.waiting("mail")
    assert [(row.task, row.state, row.count) for row in found] == [
        ("echo", "ready", 3),
        ("echo", "scheduled", 1),
    ]
    assert hw.queues.waiting_sync("mail", task="other") == []
    assert await hw.queues.purge("mail") == 4


async def test_a_running_job_is_not_touched_and_finishes(
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
    waiting = await hold.enqueue_many([{}] * 5)
    assert await hw.queues.purge("mail") == 5
    opened.set()
    assert await first.result(timeout=DEADLINE) == "done"
    assert {(await job.status()).state for job in waiting} == {"cancelled"}


async def test_a_caller_that_awaits_a_result_is_notified(hw: Headway, echo, hand: Hand) -> None:
    jobs = await echo.enqueue_many({"n": n} for n in range(3))
    waiting = [asyncio.ensure_future(job.result(timeout=DEADLINE)) for job in jobs]
    await eventually(lambda: hand.value("select count(*) from awaited") == 3)
    assert await hw.queues.purge("mail") == 3
    for one in waiting:
        with pytest.raises(JobCancelled):
            await one


async def test_what_was_purged_is_kept_and_runs_when_it_is_retried(
    hw: Headway, echo, hand: Hand
) -> None:
    job = await echo.enqueue(42)
    await hw.queues.purge("mail")
    status = await job.status()
    assert (status.state, status.input) == ("cancelled", {"n": 42})
    assert status.error is not None
    assert "purged" in status.error["message"]
    await job.retry()
    await hw.run_until_idle()
    assert await job.result(timeout=DEADLINE) == 42


async def test_room_under_a_key_goes_to_the_next_job_in_another_queue(
    hw: Headway, echo, hand: Hand, start: Callable[..., Running]
) -> None:
    """The poll is an hour, so it was notified. No worker serves the queue of the holder."""
    await echo.using(concurrency_key="tenant").enqueue(1)
    hand.sweep()  # it has the room
    behind = await echo.using(concurrency_key="tenant", queue="elsewhere").enqueue(2)
    running = start(queues={"elsewhere": 1}, poll="1h", poll_alone="1h")
    await eventually(lambda: _listens(hand))
    other = echo.using(concurrency_key="another", queue="elsewhere")
    assert await (await other.enqueue(3)).result(timeout=DEADLINE) == 3
    # It is the leader, and has scanned every line that it was notified of: now it waits.
    admitter = running.worker._upkeep.maintenance.admitter  # pyright: ignore[reportPrivateUsage]
    await eventually(lambda: not admitter._scan_due)  # pyright: ignore[reportPrivateUsage]
    assert hand.state(behind.id) == "blocked"
    assert await hw.queues.purge("mail") == 1
    assert await behind.result(timeout=DEADLINE) == 2


def _listens(hand: Hand) -> bool:
    """The last thing a listener said is the call by which it proves that it hears itself."""
    return bool(
        hand.rows(
            "select pid from pg_stat_activity where datname = current_database() "
            "and application_name like 'headway worker%' "
            "and query = 'select pg_catalog.pg_notify($1::text, $2::text)'"
        )
    )


async def test_what_is_enqueued_meanwhile_stays(hw: Headway, echo, hand: Hand) -> None:
    """A producer that makes jobs as fast as they are purged does not keep it going."""
    await echo.enqueue_many({"n": n} for n in range(2_500))
    late = []

    def told(so_far: int) -> None:
        if so_far < 2_500:
            late.append(echo.enqueue_sync(n=-1))

    assert await asyncio.to_thread(hw.queues.purge_sync, "mail", on_progress=told) == 2_500
    assert len(late) >= 2
    assert {(await job.status()).state for job in late} == {"ready"}


async def test_g3_under_claimers_and_purges_every_job_has_exactly_one_end(
    hw: Headway, hand: Hand, start: Callable[..., Running]
) -> None:
    ran = Counter[int]()

    @hw.task(queue="mail")
    async def note(n: int) -> None:
        ran[n] += 1
        await asyncio.sleep(0)

    for _ in range(2):
        start(queues={"mail": 1}, concurrency=20)
    made = 0
    purged = 0
    for _ in range(15):
        await note.enqueue_many({"n": n} for n in range(made, made + 60))
        made += 60
        counts = await asyncio.gather(*[hw.queues.purge("mail") for _ in range(2)])
        purged += sum(counts)
    await eventually(lambda: hand.value("select count(*) from job") == 0)
    ends = hand.rows("select id, state from jobs")
    assert len(ends) == made == len({row["id"] for row in ends})
    by_state = Counter(row["state"] for row in ends)
    assert by_state == Counter(cancelled=purged, succeeded=made - purged)
    assert set(ran.values()) <= {1}
    assert len(ran) == by_state["succeeded"]
    metrics = await hw.queues.metrics("mail")
    assert (metrics.succeeded, metrics.cancelled) == (by_state["succeeded"], purged)


@pytest.mark.parametrize("queue", ["", " mail", "x" * 201])
async def test_a_name_that_cannot_be_is_refused(hw: Headway, queue: str) -> None:
    for call in (hw.queues.purge_sync, hw.queues.waiting_sync, hw.queues.drain_sync):
        with pytest.raises(ConfigError, match="queue"):
            call(queue)
