"""The defects of underway that are about many jobs and workers: UD1 to UD3, UD8, UD10."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import psycopg

from headway import Headway
from headway.core.clock import monotonic
from headway.engine.maintenance.sweeps import sweeps
from headway.engine.service import Service
from headway.errors import DatabaseUnavailable
from headway.store import fleet, jobs
from headway.store.jobs import Settled
from tests.reference.scenes import OURS, backends
from tests.store.plan import measure
from tests.store.store import Store, ask, new_job, shares, verdict
from tests.support import DEADLINE, eventually

_DAY = 86_400


def test_ud1_a_claim_reads_what_it_takes_however_much_waits(store: Store, worker: int) -> None:
    """Underway: a scan and a sort of the whole queue. Headway: as many rows as it claims (G9)."""
    for delay in (0.0, 60.0):
        made = [new_job(delay=delay) for _ in range(2_000)]
        store.run(jobs.enqueue(store.quiet, made, store.now))
    done = [Settled(claim, verdict("succeed")) for claim in store.claim(worker, room=1_000)]
    store.run(jobs.finish(store.quiet, done, store.now))
    store.eyes.execute("analyze job")
    idle = jobs.claim(0, shares([ask()], 10), store.now)
    nodes = measure(store, jobs.claim(worker, shares([ask()], 10), store.now), idle)
    assert nodes[0]["Actual Rows"] == 10
    read = [node for node in nodes if node.get("Index Name") == "job_ready"]
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in read) == 10
    scans = {node["Node Type"] for node in nodes if node.get("Relation Name") == "job"}
    assert "Seq Scan" not in scans


async def test_ud2_handlers_hold_neither_a_transaction_nor_a_connection(
    hw: Headway, start: Any, db: psycopg.Connection[Any]
) -> None:
    """Underway: both, for as long as a task runs. Headway: fifty handlers, five connections."""
    running, release = asyncio.Semaphore(0), asyncio.Event()

    @hw.task
    async def work() -> None:
        running.release()
        await release.wait()

    start(concurrency=50)
    for _ in await work.enqueue_many([{} for _ in range(50)]):
        await asyncio.wait_for(running.acquire(), DEADLINE)
    now = db.execute("select clock_timestamp()::text").fetchone()
    assert now is not None
    older = f"{OURS} and xact_start < '{now[0]}'"
    await eventually(lambda: not backends(db, "headway%", older))
    assert len(backends(db, "headway worker %", OURS)) < 10
    release.set()


def test_ud3_one_statement_claims_a_hundred_and_one_settles_them(store: Store, worker: int) -> None:
    """Underway: one at a time, three to six statements each. Headway: batches, both ways."""
    store.run(jobs.enqueue(store.quiet, [new_job() for _ in range(100)], store.now))
    claims = store.claim(worker)
    assert len(claims) == 100
    settled = [Settled(claim, verdict("succeed")) for claim in claims]
    assert store.run(jobs.finish(store.target, settled, store.now)) == {}
    (written,) = store.rows("select xmin::text, count(*) as n from archive group by 1")
    assert written["n"] == 100


async def test_ud8_one_worker_serves_many_queues_with_one_listener(
    hw: Headway, start: Any, db: psycopg.Connection[Any]
) -> None:
    """Underway: a worker and its listeners for each queue. Headway: one for all that its tasks name."""

    async def work(number: int) -> int:
        return number

    tasks = [hw.task(name=f"work-{n}", queue=f"queue-{n}")(work) for n in range(5)]
    start(poll="1h")
    made = [await task.enqueue(number) for number, task in enumerate(tasks)]
    assert [await job.result(timeout=DEADLINE) for job in made] == list(range(5))
    assert len(await eventually(lambda: backends(db, "headway worker %"))) == 1


def test_ud8_a_batch_is_one_notification_for_each_queue(store: Store) -> None:
    """Underway: one for each row, heard by all. Headway: one for each queue, with its lanes."""
    made = [new_job(queue=f"queue {n % 2}", priority=n % 3) for n in range(60)]
    with store.listening() as heard:
        store.run(jobs.enqueue(store.target, made, store.now))
        assert sorted(heard()) == ["ready 2,1,0 queue 0", "ready 2,1,0 queue 1"]


async def test_ud10_a_loop_that_meets_errors_waits_longer_each_time() -> None:
    """Underway: the loop goes on at once, without end. Headway: a pause that doubles."""
    turns: list[float] = []
    enough = asyncio.Event()

    class Unlucky(Service):
        async def turn(self) -> float | None:
            turns.append(monotonic())
            if len(turns) == 4:
                enough.set()
            raise DatabaseUnavailable("no answer")

    unlucky = Unlucky()
    unlucky.start()
    await asyncio.wait_for(enough.wait(), DEADLINE)
    await unlucky.stop()
    pauses = [after - before for before, after in pairwise(turns)]
    # Chance takes up to a half off each; the clock may be a moment ahead.
    assert all(pause > least for pause, least in zip(pauses, (0.04, 0.09, 0.19), strict=True))


def test_ud10_retention_is_the_fleets_and_drops_whole_days(store: Store, worker: int) -> None:
    """Underway: one DELETE, and only where someone runs it. Headway: every fleet sweeps."""
    assert "partitions" in [sweep.name for sweep in sweeps(store.target, 30)]
    store.run(fleet.partitions(store.now))
    claim = store.held(worker)
    store.settle(claim, "succeed")
    store.advance(7 * _DAY - 1)
    store.run(fleet.partitions(store.now))
    assert store.states(claim.id) == ["succeeded"]
    store.advance(2 * _DAY)
    assert store.run(fleet.partitions(store.now))[1] > 0
    assert store.states(claim.id) == []
