"""Leases: they end, others go on, and nobody is disturbed by who comes back too late."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing, closing
from typing import Any

import pytest

from headway import Headway
from headway.errors import DatabaseUnavailable
from headway.pull import job as pulled_module
from headway.pull.job import PulledJob
from headway.store.connections.client import Client
from tests.sql.hand import Hand
from tests.support import DEADLINE, Running, eventually, eventually_sync


async def test_when_a_lease_ends_another_gets_the_job_and_the_first_one_settles_nothing(
    hw: Headway, hand: Hand
) -> None:
    """Where no worker lives: who asks next takes it back."""
    made = hand.enqueue("resize", queue="ext")
    async with asyncio.timeout(DEADLINE):
        async with aclosing(hw.pull("ext", lease="1s")) as pulled:
            first = await anext(pulled)
        async with aclosing(hw.pull("ext", lease="1h")) as pulled:
            second = await anext(pulled)
    assert (first.id, second.id) == (made, made)
    assert (first.claim >> 32, second.claim >> 32, second.attempt) == (1, 2, 2)
    assert not await first.extend()
    assert not await first.complete("late")
    assert not await first.fail("late")
    assert hand.state(made) == "running"
    assert await second.complete("in time")
    assert hand.ended(made)["result"] == "in time"


async def test_where_a_worker_lives_it_takes_the_job_back_and_runs_it_itself(
    hw: Headway, hand: Hand, start: Callable[..., Running]
) -> None:
    ran = asyncio.Event()

    @hw.task(name="resize", queue="ext")
    async def resize() -> str:
        ran.set()
        return "by the worker"

    made = hand.enqueue("resize", queue="ext")
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext", lease="1s")) as pulled:
        lost = await anext(pulled)
        start()
        await ran.wait()
    await eventually(lambda: hand.state(made) == "succeeded")
    assert not await lost.complete("late")
    assert hand.ended(made)["result"] == "by the worker"


async def test_a_job_that_is_lost_too_often_fails(hw: Headway, hand: Hand) -> None:
    made = hand.enqueue("resize", queue="ext", max_attempts=2)
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext")) as pulled:
        for attempt in (1, 2):
            job = await anext(pulled)
            assert job.attempt == attempt
            hand.lose_consumers()
        hand.sweep()
    assert hand.ended(made)["state"] == "failed"
    assert len(hand.rows("select claim from attempt where job_id = %s", made)) == 2


async def test_extending_one_keeps_all_that_were_claimed_with_it(hw: Headway, hand: Hand) -> None:
    for _ in range(3):
        hand.enqueue("resize", queue="ext")
    hand.enqueue("resize", queue="other")
    async with asyncio.timeout(DEADLINE):
        async with aclosing(hw.pull("ext", count=3, lease="1m")) as pulled:
            jobs = [await anext(pulled) for _ in range(3)]
        async with aclosing(hw.pull("other", lease="1m")) as pulled:
            other = await anext(pulled)
    assert await jobs[1].extend("2h")
    long = (
        "select count(*) from job j join worker w on w.id = j.worker_id "
        "where w.expires_at > now() + interval '1 h'"
    )
    assert hand.value(long) == 3
    assert await jobs[0].extend("1s"), "nobody shortens it"
    assert hand.value(long) == 3
    for job in (*jobs, other):
        assert await job.complete()
    assert hand.rows("select id from worker") == [], "with its last job a consumer is forgotten"


async def test_a_cancelled_job_tells_its_consumer_and_ends_as_cancelled(
    hw: Headway, hand: Hand
) -> None:
    made = [hand.enqueue("resize", queue="ext") for _ in range(3)]
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext", count=3)) as pulled:
        first, second, third = [await anext(pulled) for _ in range(3)]
    for job in made:
        hand.call("cancel", job)
    assert not await first.extend()
    assert await first.release(), "it is given back, and so it ends"
    assert await second.fail("stopped half way")
    assert await third.complete("was done already")
    assert [hand.state(job) for job in made] == ["cancelled", "cancelled", "succeeded"]


async def test_g3_many_consumers_share_a_queue_and_each_job_is_theirs_once(
    hw: Headway, hand: Hand
) -> None:
    @hw.task(queue="ext")
    async def resize(n: int) -> None: ...

    await resize.enqueue_many({"n": n} for n in range(200))
    seen, by = Counter[int](), Counter[int]()

    async def consume(number: int) -> None:
        async with aclosing(hw.pull("ext", count=1 + number * 2)) as pulled:
            async for job in pulled:
                async with job:
                    seen[job.input["n"]] += 1
                    by[number] += 1
                    await asyncio.sleep(0)

    consumers = [asyncio.ensure_future(consume(number)) for number in range(4)]
    await eventually(lambda: hand.value("select count(*) from job") == 0)
    for consumer in consumers:
        consumer.cancel()
    await asyncio.gather(*consumers, return_exceptions=True)
    assert seen == dict.fromkeys(range(200), 1)
    assert len(by) == 4
    assert hand.value("select count(*) from jobs where state = 'succeeded'") == 200
    assert hand.rows("select id from worker") == []


async def test_a_consumer_whose_connections_are_killed_goes_on(
    hw: Headway, hand: Hand, waits: asyncio.Event
) -> None:
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext")) as pulled:
        for _ in range(3):
            waits.clear()
            coming = asyncio.ensure_future(anext(pulled))
            await waits.wait()
            hand.rows(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid() "
                "and backend_type = 'client backend'"
            )
            made = hand.enqueue("resize", queue="ext")
            job = await coming
            assert job.id == made
            assert await job.complete()


def test_without_a_loop_a_consumer_that_waits_holds_no_transaction_either(
    dsn: str, schema: str, hand: Hand
) -> None:
    seen: list[bool] = []
    with Headway(dsn, schema=schema) as hw:

        def consume() -> None:
            with closing(hw.pull_sync("ext")) as pulled:
                seen.append(next(pulled).complete_sync())

        consumer = threading.Thread(target=consume)
        consumer.start()
        others = (
            "select count(*) as all, count(*) filter (where state <> 'idle' or backend_xmin is not null) "
            "as busy from pg_stat_activity where datname = current_database() "
            "and backend_type = 'client backend' and pid <> pg_backend_pid()"
        )
        try:
            # One that listens and one of the pool.
            eventually_sync(lambda: hand.row(others) == {"all": 2, "busy": 0})
        finally:
            hand.enqueue("resize", queue="ext")
            consumer.join(DEADLINE)
    assert seen == [True]


async def test_a_job_fails_with_an_exception_as_with_words(hw: Headway, hand: Hand) -> None:
    hand.enqueue("resize", {"n": 1}, queue="ext", max_attempts=1)
    async with aclosing(hw.pull("ext")) as pulled:
        job = await anext(pulled)
        assert await job.fail(ValueError("too wide"))
    assert hand.ended(job.id)["error"]["message"] == "ValueError: too wide"


def test_a_loop_goes_on_when_the_database_was_away_while_a_job_was_worked_on(
    hw: Headway, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is settled as soon as it can be, and the loop does not end."""
    monkeypatch.setattr(pulled_module, "_PAUSE", 0.01)
    made = [hand.enqueue("resize", {"n": n}, queue="ext") for n in range(2)]
    run, away = Client.run_all_sync, iter([True, True, False])

    def unreliable(self: Client, statements: Any, **given: Any) -> Any:
        if statements[0].name == "writes/complete" and next(away, False):
            raise DatabaseUnavailable("the server is down")
        return run(self, statements, **given)

    monkeypatch.setattr(Client, "run_all_sync", unreliable)
    done: list[Any] = []
    for job in hw.pull_sync("ext"):
        with job:
            done.append(job.id)
        if len(done) == 2:
            break
    assert done == made
    assert [hand.ended(one)["state"] for one in made] == ["succeeded"] * 2


def test_what_lingered_while_the_database_is_away_is_left_to_its_lease(
    hw: Headway, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows whether it is still ours, so it is not handed out; the next one is."""
    made = [hand.enqueue("resize", {"n": n}, queue="ext") for n in range(3)]
    run = Client.run_all_sync

    def unreliable(self: Client, statements: Any, **given: Any) -> Any:
        if statements[0].name == "writes/extend":
            raise DatabaseUnavailable("the server is down")
        return run(self, statements, **given)

    monkeypatch.setattr(Client, "run_all_sync", unreliable)
    lingered = iter([False, True, False])
    monkeypatch.setattr(PulledJob, "half_spent", property(lambda _: next(lingered)))
    with closing(hw.pull_sync("ext", count=3, lease="1h")) as pulled:
        handed_out = [next(pulled).id, next(pulled).id]
    assert handed_out == [made[0], made[2]]
    assert hand.state(made[1]) == "running", "until its lease ends"


async def test_in_a_loop_what_lingered_while_the_database_is_away_is_left_to_its_lease(
    hw: Headway, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [hand.enqueue("resize", {"n": n}, queue="ext") for n in range(3)]
    run = Client.run_all

    async def unreliable(self: Client, statements: Any, **given: Any) -> Any:
        if statements[0].name == "writes/extend":
            raise DatabaseUnavailable("the server is down")
        return await run(self, statements, **given)

    monkeypatch.setattr(Client, "run_all", unreliable)
    lingered = iter([False, True, False])
    monkeypatch.setattr(PulledJob, "half_spent", property(lambda _: next(lingered)))
    async with aclosing(hw.pull("ext", count=3, lease="1h")) as pulled:
        handed_out = [(await anext(pulled)).id, (await anext(pulled)).id]
    assert handed_out == [made[0], made[2]]
    assert hand.state(made[1]) == "running", "until its lease ends"


async def test_one_that_stops_while_it_lengthens_a_lease_gives_everything_back(
    hw: Headway, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [hand.enqueue("resize", queue="ext") for _ in range(2)]
    lengthening = asyncio.Event()

    async def extend(_: PulledJob) -> bool:
        lengthening.set()
        await asyncio.Event().wait()
        return True

    monkeypatch.setattr(PulledJob, "half_spent", True)
    monkeypatch.setattr(PulledJob, "extend", extend)
    consumer = asyncio.ensure_future(anext(hw.pull("ext", count=2, lease="1h")))
    await asyncio.wait_for(lengthening.wait(), DEADLINE)
    consumer.cancel()
    await asyncio.gather(consumer, return_exceptions=True)
    assert [hand.state(one) for one in made] == ["ready", "ready"]
