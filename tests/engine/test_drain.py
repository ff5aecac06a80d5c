"""G11: a stop is not a failure."""

import asyncio
import threading

import pytest

from headway import Context, Headway
from tests.support import DEADLINE, eventually


class Gate:
    """A task whose handlers wait until they are let through."""

    def __init__(self, hw: Headway) -> None:
        self.inside: set[int] = set()
        self.told: list[int] = []
        self.opened = asyncio.Event()

        @hw.task
        async def gate(ctx: Context, n: int) -> int:
            self.inside.add(n)
            try:
                await self.opened.wait()
            except asyncio.CancelledError:
                self.told.append(n)
                raise
            return n

        self.task = gate


@pytest.fixture
def gate(hw: Headway) -> Gate:
    return Gate(hw)


async def test_g11_what_runs_may_finish(hw, gate, start) -> None:
    running = start(grace="30s")
    jobs = await gate.task.enqueue_many({"n": n} for n in range(10))
    await eventually(lambda: len(gate.inside) == 10)
    stopping = asyncio.create_task(running.stop())
    await asyncio.sleep(0)
    late = await gate.task.enqueue(99)
    assert not running.done()
    gate.opened.set()
    report = await stopping
    assert report.settled["succeed"] == 10
    assert gate.told == []
    assert [await job.result() for job in jobs] == list(range(10))
    # A claim that was under way may have taken it: then it went back, and its attempt with it.
    status = await late.status()
    assert (status.state, status.attempt) == ("ready", 0)


async def test_g11_what_does_not_finish_within_the_grace_goes_back_unharmed(
    hw, gate, start
) -> None:
    running = start(grace="100ms")
    jobs = await gate.task.enqueue_many({"n": n} for n in range(10))
    await eventually(lambda: len(gate.inside) == 10)
    report = await running.stop()
    assert sorted(gate.told) == list(range(10)), "their handlers were told"
    assert report.settled == {"release": 10}
    for job in jobs:
        status = await job.status()
        assert (status.state, status.attempt, status.worker) == ("ready", 0, None)
        assert await job.attempts() == []


async def test_g11_what_goes_back_keeps_its_place_in_the_lane(hw, gate, start, db) -> None:
    running = start(grace=0, concurrency=3)
    jobs = await gate.task.enqueue_many({"n": n} for n in range(6))
    await eventually(lambda: len(gate.inside) == 3)
    await running.stop()
    order = db.execute("select id from job order by seq").fetchall()
    assert [row[0] for row in order] == [job.id for job in jobs]


async def test_g11_a_second_stop_waits_for_nobody(hw, gate, start) -> None:
    running = start(grace="1h")
    job = await gate.task.enqueue(1)
    await eventually(lambda: gate.inside)
    running.worker.stop()
    await asyncio.sleep(0)
    assert not running.done()
    report = await asyncio.wait_for(running.stop(), DEADLINE)
    assert report.settled == {"release": 1}
    assert ((await job.status()).state, (await job.status()).attempt) == ("ready", 0)


async def test_g11_a_thread_that_does_not_stop_does_not_keep_the_worker(hw, start) -> None:
    inside, lock = threading.Event(), threading.Lock()
    lock.acquire()

    @hw.task
    def stuck() -> None:
        inside.set()
        with lock:
            pass

    running = start(grace="50ms")
    job = await stuck.enqueue()
    await asyncio.to_thread(inside.wait, DEADLINE)
    await asyncio.wait_for(running.stop(), DEADLINE)
    lock.release()
    assert ((await job.status()).state, (await job.status()).attempt) == ("ready", 0)


async def test_g11_a_worker_that_is_cancelled_lets_its_jobs_finish(hw, gate) -> None:
    serving = asyncio.create_task(hw.run_worker(grace="1h", concurrency=3))
    jobs = await gate.task.enqueue_many({"n": n} for n in range(5))
    await eventually(lambda: len(gate.inside) == 3)
    serving.cancel()
    done, _ = await asyncio.wait([serving], timeout=0.05)
    assert not done
    gate.opened.set()
    await asyncio.wait([serving], timeout=DEADLINE)
    assert serving.cancelled()
    assert gate.told == []
    states = [((await j.status()).state, (await j.status()).attempt) for j in jobs]
    assert states == [("succeeded", 1)] * 3 + [("ready", 0)] * 2
    assert [worker.alive for worker in await hw.workers.list()] == [False]


async def test_g11_a_worker_that_is_cancelled_stops_within_its_grace(hw, gate) -> None:
    serving = asyncio.create_task(hw.run_worker(grace="50ms"))
    job = await gate.task.enqueue(1)
    await eventually(lambda: gate.inside)
    serving.cancel()
    await asyncio.wait([serving], timeout=DEADLINE)
    assert serving.cancelled()
    assert ((await job.status()).state, (await job.status()).attempt) == ("ready", 0)


async def test_g11_a_worker_that_is_cancelled_again_gives_its_jobs_back(hw, gate) -> None:
    serving = asyncio.create_task(hw.run_worker(grace="1h"))
    jobs = await gate.task.enqueue_many({"n": n} for n in range(5))
    await eventually(lambda: len(gate.inside) == 5)
    serving.cancel()
    await asyncio.wait([serving], timeout=0.05)
    serving.cancel()
    await asyncio.wait([serving], timeout=DEADLINE)
    assert serving.cancelled()
    assert [worker.alive for worker in await hw.workers.list()] == [False]
    assert sorted(gate.told) == list(range(5))
    assert {((await j.status()).state, (await j.status()).attempt) for j in jobs} == {("ready", 0)}


@pytest.mark.parametrize("pause", [0, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1])
async def test_g11_a_stop_at_any_moment_leaves_nothing_behind(hw, start, db, pause: float) -> None:
    """Also while claims and verdicts are under way: every job has ended, or waits untouched."""

    @hw.task
    async def quick(n: int) -> int:
        await asyncio.sleep(0)
        return n

    await quick.enqueue_many({"n": n} for n in range(3_000))
    running = start(concurrency=50, grace="30s")
    await eventually(lambda: running.worker.id)
    await asyncio.sleep(pause)
    report = await running.stop()
    states = dict(
        db.execute("select (state, attempt)::text, count(*) from jobs group by 1").fetchall()
    )
    done, waiting = states.pop("(succeeded,1)", 0), states.pop("(ready,0)", 0)
    assert states == {}
    assert done + waiting == 3_000
    assert report.settled.get("succeed", 0) == done
    assert report.lost == 0
    assert db.execute("select count(*) from attempt").fetchone() == (0,)


async def test_g11_another_worker_takes_over_at_once(hw, gate, start) -> None:
    first = start(grace=0)
    jobs = await gate.task.enqueue_many({"n": n} for n in range(10))
    await eventually(lambda: len(gate.inside) == 10)
    start(poll="1h")
    gate.inside.clear()
    await first.stop()
    await eventually(lambda: len(gate.inside) == 10)
    gate.opened.set()
    assert [await job.result(timeout="60s") for job in jobs] == list(range(10))
    assert {(await job.status()).attempt for job in jobs} == {1}


async def test_a_worker_signs_off_and_hands_its_duty_on(hw, gate, start, db) -> None:
    first = start()
    await eventually(lambda: first.worker.id)  # it has heard of what the table shows before
    assert db.execute("select worker_id from leader").fetchone() == (first.worker.id,)
    await first.stop()
    assert db.execute("select count(*) from leader").fetchone() == (0,)
    alive = "select count(*) from worker where expires_at > now()"
    assert db.execute(alive).fetchone() == (0,)
    second = start()
    await eventually(lambda: second.worker.id)
    assert db.execute("select worker_id from leader").fetchone() == (second.worker.id,)
