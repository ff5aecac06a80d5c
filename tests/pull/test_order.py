"""Order within a key, when a worker, a consumer in Python and one in SQL work on the same key."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any
from uuid import UUID

import pytest

from headway import Context, Headway, Key, PulledJob, Retry
from tests.sql.hand import Hand
from tests.support import DEADLINE, Running, eventually

IN_ORDER = Key(lambda key, **_: key, ordered=True)
NUMBER = 12


class Told:
    """Return the begun jobs in order, and whether two of one key were ever under way together."""

    def __init__(self) -> None:
        self.began: list[tuple[str, int, int]] = []
        self.by: set[str] = set()
        self.together: list[str] = []
        self._inside: set[str] = set()
        self._lock = threading.Lock()

    @contextmanager
    def running(self, who: str, key: str, n: int, attempt: int) -> Iterator[None]:
        with self._lock:
            if key in self._inside:
                self.together.append(f"{key} {n} by {who}")
            self._inside.add(key)
            self.began.append((key, n, attempt))
            self.by.add(who)
        try:
            yield
        finally:
            with self._lock:
                self._inside.discard(key)

    def of(self, key: str) -> list[tuple[int, int]]:
        return [(n, attempt) for k, n, attempt in self.began if k == key]


def _fails(n: int, attempt: int) -> bool:
    return n % 4 == 1 and attempt == 1


def _lost(n: int, attempt: int) -> bool:
    return n % 4 == 3 and attempt == 1


def _expire(hand: Hand, job_id: UUID) -> None:
    """The lease of who holds a job runs out."""
    hand.rows(
        "update worker set expires_at = clock_timestamp() - interval '1 s' "
        "where version = 'sql' and id = (select worker_id from job where id = %s)",
        job_id,
    )


@pytest.mark.slow
async def test_order_within_a_key_holds_for_workers_and_consumers_of_both_kinds_together(
    hw: Headway, dsn: str, schema: str, start: Callable[..., Running]
) -> None:
    told, ended = Told(), threading.Event()
    zombies: list[bool] = []

    @hw.task(queue="ext", concurrency_key=IN_ORDER, retry=Retry(base="10ms", jitter=0))
    async def work(ctx: Context, key: str, n: int) -> None:
        with told.running("worker", key, n, ctx.attempt):
            await asyncio.sleep(0)
        if _fails(n, ctx.attempt) or _lost(n, ctx.attempt):
            raise RuntimeError("again")

    async def consume(hand: Hand) -> None:
        async with aclosing(hw.pull("ext")) as pulled:
            async for job in pulled:
                with told.running("pull", job.input["key"], job.input["n"], job.attempt):
                    await asyncio.sleep(0)
                if _lost(job.input["n"], job.attempt):
                    _expire(hand, job.id)  # it died; what it says later counts for nothing
                    await eventually(lambda job=job: _moved_on(hand, job))
                    zombies.append(await job.complete())
                elif _fails(job.input["n"], job.attempt):
                    await job.fail("again", delay="10ms")
                else:
                    await job.complete()

    def consume_by_sql() -> None:
        hand = Hand(dsn, schema)
        while not ended.wait(0.002):
            for claimed in hand.claim("ext"):
                n, attempt = claimed["input"]["n"], claimed["attempt"]
                with told.running("sql", claimed["input"]["key"], n, attempt):
                    pass
                if _lost(n, attempt):
                    _expire(hand, claimed["id"])
                elif _fails(n, attempt):
                    hand.settle("fail", claimed, "again", delay="10 ms")
                else:
                    hand.settle("complete", claimed)
        hand.close()

    eyes = Hand(dsn, schema)
    await work.enqueue_many({"key": key, "n": n} for n in range(NUMBER) for key in "abcdef")
    start(queues={"ext": 1}, concurrency=1)
    sql, pull = threading.Thread(target=consume_by_sql), asyncio.ensure_future(consume(eyes))
    sql.start()
    try:
        await eventually(lambda: eyes.value("select count(*) from job") == 0 or pull.done())
    finally:
        ended.set()
        pull.cancel()
        await asyncio.to_thread(sql.join, DEADLINE)
    assert eyes.value("select count(*) from jobs where state = 'succeeded'") == 6 * NUMBER
    eyes.close()
    tries = [(n, attempt + 1) for n in range(NUMBER) for attempt in range(1 + n % 2)]
    assert {key: told.of(key) for key in "abcdef"} == dict.fromkeys("abcdef", tries)
    assert told.together == []
    assert told.by == {"worker", "pull", "sql"}, "each had a part in it"
    assert not any(zombies)


def _moved_on(hand: Hand, job: PulledJob) -> bool:
    """Another has the job, or may have it."""
    rows = hand.rows("select claim, state::text as state from job where id = %s", job.id)
    return not rows or rows[0] != {"claim": job.claim, "state": "x"}


async def test_the_next_of_a_key_does_not_come_while_the_first_waits_for_its_next_attempt(
    hw: Headway, hand: Hand
) -> None:
    keyed = {"queue": "ext", "concurrency_key": "tenant", "ordered": True}
    first, second = [hand.enqueue("resize", {"n": n}, **keyed) for n in range(2)]
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext", count=5)) as pulled:
        job = await anext(pulled)
        assert job.id == first
        assert await job.fail("later", delay="1h")
        assert hand.claim("ext", 5) == []
        assert hand.state(second) == "blocked"
        hand.call("retry", first)  # somebody does not want to wait
        again = await anext(pulled)
        assert (again.id, again.attempt) == (first, 2)
        assert await again.snooze("1h")
        assert hand.claim("ext", 5) == []
        hand.call("cancel", first)
        assert (await anext(pulled)).id == second


@pytest.mark.parametrize("ordered", [True, False])
async def test_a_released_job_is_the_first_of_its_key_again(
    hw: Headway, hand: Hand, ordered: bool
) -> None:
    keyed: dict[str, Any] = {"queue": "ext", "concurrency_key": "tenant", "ordered": ordered}
    made = [hand.enqueue("resize", {"n": n}, **keyed) for n in range(3)]
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext")) as pulled:
        job = await anext(pulled)
        assert await job.release()
        seen = []
        for _ in range(3):
            job = await anext(pulled)
            seen.append(job.id)
            await job.complete()
    assert seen == made


async def test_as_many_of_a_key_as_its_limit_and_no_more(hw: Headway, hand: Hand) -> None:
    for n in range(5):
        hand.enqueue("resize", {"n": n}, queue="ext", concurrency_key="tenant", concurrency_limit=2)
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext", count=10)) as pulled:
        held = [await anext(pulled), await anext(pulled)]
        assert hand.claim("ext", 10) == []
        assert await held[0].complete()
        third = await anext(pulled)
        assert third.input == {"n": 2}
        assert hand.value("select count(*) from job where state = 'x'") == 2
