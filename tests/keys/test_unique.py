"""Unique keys in an app: the holder of a key, the result of a second call, the end of the hold."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from headway import Headway, Retry, Unique
from headway.errors import ConfigError, KeyTaken
from tests.support import DEADLINE, eventually


async def test_a_second_job_of_the_same_key_is_the_first(hw: Headway) -> None:
    @hw.task(unique=lambda user: f"user {user}")
    async def work(user: int) -> int:
        return user

    first, second, other = [await work.enqueue(user) for user in (1, 1, 2)]
    assert (first.created, second.created, other.created) == (True, False, True)
    assert first == second
    assert first != other
    assert (await hw.run_until_idle()).total == 2
    assert await second.result() == 1
    assert (await work.enqueue(1)).created, "the key was free when the job had ended"


async def test_reject_names_the_holder_of_the_key(hw: Headway) -> None:
    @hw.task(unique=Unique("one", policy="reject"))
    async def work() -> None: ...

    first = await work.enqueue()
    for call in (work.enqueue, work.using(unique=Unique("one", policy="reject")).enqueue):
        with pytest.raises(KeyTaken) as taken:
            await call()
        assert taken.value.job_id == first.id
        assert "one" in str(taken.value)
    with pytest.raises(KeyTaken):
        await asyncio.to_thread(work.enqueue_sync)


async def test_replace_gives_the_waiting_job_the_new_input_moment_and_priority(hw: Headway) -> None:
    @hw.task(unique=Unique(lambda doc, **_: doc, policy="replace"))
    async def index(doc: str, version: int) -> int:
        return version

    first = await index.using(delay="1h").enqueue("a", 1)
    moment = (await first.status()).run_at
    second = await index.using(delay="1h", priority=7).enqueue("a", version=2)
    assert second == first
    assert not second.created
    status = await first.status()
    assert (status.input, status.priority) == ({"doc": "a", "version": 2}, 7)
    assert status.run_at > moment
    await index.enqueue("a", version=3)
    assert (await hw.run_until_idle()).total == 1
    assert await first.result() == 3


async def test_replace_leaves_a_job_alone_that_has_begun(hw: Headway, start) -> None:
    began, gate = asyncio.Event(), asyncio.Event()

    @hw.task(unique=Unique("k", policy="replace"))
    async def work(n: int) -> int:
        began.set()
        await gate.wait()
        return n

    start(poll="1h")
    first = await work.enqueue(1)
    await asyncio.wait_for(began.wait(), DEADLINE)
    second = await work.enqueue(2)
    assert second.created
    assert second != first
    gate.set()
    assert [await job.result(timeout=DEADLINE) for job in (first, second)] == [1, 2]


async def test_a_job_made_to_have_its_key_until_it_ends_is_not_replaced_while_it_runs(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Two versions of an app may disagree. The second call is refused; its input is not lost silently."""

    @hw.task(unique=Unique("k"), retry=Retry(max_attempts=2, base="1h", cap="1h", jitter=0))
    async def work(n: int) -> int:
        raise RuntimeError("in an hour")

    first = await work.enqueue(1)
    newer = work.using(unique=Unique("k", policy="replace"))
    assert await newer.enqueue(2) == first  # it waits: this can be done
    await hw.run_until_idle()
    assert (await first.status()).state == "scheduled"
    with pytest.raises(KeyTaken) as taken:
        await newer.enqueue(3)
    assert taken.value.job_id == first.id
    assert (await first.status()).input == {"n": 2}


async def test_a_key_that_counts_while_waiting_is_free_when_the_job_begins(
    hw: Headway, start
) -> None:
    began, gate = asyncio.Event(), asyncio.Event()

    @hw.task(unique=Unique("k", scope="waiting"))
    async def work(n: int) -> int:
        began.set()
        await gate.wait()
        return n

    first = await work.enqueue(1)
    assert not (await work.enqueue(2)).created
    start(poll="1h")
    await asyncio.wait_for(began.wait(), DEADLINE)
    third = await work.enqueue(3)
    assert third.created
    gate.set()
    assert [await job.result(timeout=DEADLINE) for job in (first, third)] == [1, 3]


@pytest.mark.parametrize("ending", ["cancel", "retry", "fail"])
async def test_an_unfinished_job_has_its_key_until_it_ends_however_it_does(
    hw: Headway, ending: str
) -> None:
    most = 1 if ending == "fail" else 2

    @hw.task(unique="k", retry=Retry(max_attempts=most, base="1h", cap="1h", jitter=0))
    async def work() -> None:
        raise RuntimeError("no")

    first = await work.enqueue()
    assert not (await work.enqueue()).created
    if ending == "cancel":
        assert await first.cancel()
    else:
        await hw.run_until_idle()
    assert (await work.enqueue()).created == (ending != "retry")


async def test_a_period_outlives_the_job(hw: Headway, db: psycopg.Connection[Any]) -> None:
    @hw.task(unique=Unique("daily", period="1d"))
    async def report() -> str:
        return "sent"

    first = await report.enqueue()
    await hw.run_until_idle()
    second = await report.enqueue()
    assert not second.created
    assert await second.result() == "sent"
    with pytest.raises(KeyTaken) as taken:
        await report.using(unique=Unique("daily", policy="reject", period="1d")).enqueue()
    assert taken.value.job_id == first.id
    until = db.execute("select until - now() from unique_period").fetchone()
    assert until is not None
    assert timedelta(hours=23) < until[0] <= timedelta(days=1)
    db.execute("update unique_period set until = now()")
    assert (await report.enqueue()).created


async def test_duplicates_within_one_call(hw: Headway) -> None:
    """Of those of one key the first is made, and with replace the last one's input stays."""

    @hw.task(unique=lambda key, **_: key)
    async def work(key: str, n: int) -> int:
        return n

    calls = [{"key": key, "n": n} for n, key in enumerate(["b", "a", "b", "c", "a", "b"])]
    jobs = await work.enqueue_many(calls)
    assert [job.created for job in jobs] == [True, True, False, True, False, False]
    assert [jobs.index(job) for job in jobs] == [0, 1, 0, 3, 1, 0]
    replacing = work.using(unique=Unique(lambda key, **_: f"r {key}", policy="replace"))
    replaced = await replacing.enqueue_many(calls)
    assert [job.created for job in replaced] == [job.created for job in jobs]
    await hw.run_until_idle()
    assert [await job.result() for job in jobs] == [0, 1, 0, 3, 1, 0]
    assert [await job.result() for job in replaced] == [5, 4, 5, 3, 4, 5]

    refusing = work.using(unique=Unique(lambda key, **_: f"x {key}", policy="reject"))
    with pytest.raises(KeyTaken):
        await refusing.enqueue_many(calls)
    assert (await refusing.enqueue("a", 9)).created, "all or none"


@pytest.mark.parametrize("policy", ["skip", "reject", "replace"])
async def test_of_many_producers_at_once_one_makes_the_job(
    hw: Headway, dsn: str, db: psycopg.Connection[Any], policy: Any
) -> None:
    """Eight producers, eight rounds, half of the transactions rolled back."""

    @hw.task(unique=Unique(lambda key, **_: key, policy=policy))
    async def work(key: str, by: int) -> None: ...

    async def produce(number: int) -> list[tuple[str, UUID, bool]]:
        chance, kept = random.Random(number), list[tuple[str, UUID, bool]]()
        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            for n in range(8):
                try:
                    job = await work.using(conn=conn).enqueue(f"key {n}", number)
                except KeyTaken as taken:
                    kept.append((f"key {n}", taken.job_id, False))
                    await conn.rollback()
                    continue
                if chance.random() < 0.5:
                    await conn.rollback()
                else:
                    await conn.commit()
                    kept.append((f"key {n}", job.id, job.created))
        return kept

    said = [one for some in await asyncio.gather(*map(produce, range(8))) for one in some]
    having = dict(db.execute("select unique_key, id from job").fetchall())
    assert db.execute("select count(*) from job").fetchone() == (len(having),)
    assert {(key, id_) for key, id_, _ in said} == set(having.items())
    assert sorted(key for key, _, made in said if made) == sorted(having)


async def test_a_job_is_revived_with_its_key_unless_another_has_it(hw: Headway) -> None:
    @hw.task(unique="k", retry=Retry(max_attempts=1))
    async def work() -> None:
        raise RuntimeError("no")

    first = await work.enqueue()
    await hw.run_until_idle()
    assert await first.retry()
    assert not (await work.enqueue()).created
    await hw.run_until_idle()
    second = await work.enqueue()
    assert second.created
    assert await first.retry()
    assert (await first.status()).keys is None
    assert await work.enqueue() == second


def test_what_makes_no_sense_is_refused() -> None:
    for bad in (
        {"policy": "ignore"},
        {"scope": "running"},
        {"period": 0},
        {"period": "1d", "policy": "replace"},
    ):
        with pytest.raises(ConfigError):
            Unique("k", **bad)


async def test_a_holder_that_is_replaced_by_one_for_later_hands_its_room_on(
    hw: Headway, start, db: psycopg.Connection[Any]
) -> None:
    """Without a poll, which is an hour away."""

    @hw.task(unique=Unique(lambda n, **_: f"u{n}", policy="replace"), concurrency_key="k")
    async def work(n: int, version: int) -> int:
        return version

    start(queues={"default": 1}, poll="1h", poll_alone="1h")
    holder = await work.using(queue="unserved").enqueue(1, 1)
    waiting = await work.enqueue(2, 1)
    ready = "select 1 from job where id = %s and state = 'r' and holds"
    await eventually(lambda: db.execute(ready, [holder.id]).fetchone())
    assert (await waiting.status()).state == "blocked"
    assert await work.using(queue="unserved", delay="1h").enqueue(1, 2) == holder
    assert await waiting.result(timeout=DEADLINE) == 1
    assert (await holder.status()).state == "scheduled"
