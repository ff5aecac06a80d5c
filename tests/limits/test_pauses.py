"""Pauses of a queue, a task, a whole flow, a step and a key: nothing of it starts, what runs goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from headway import Headway, Key, Limit
from headway.errors import ConfigError
from tests.limits.record import Record
from tests.support import DEADLINE, Running, eventually

Start = Callable[..., Running]
PAUSED: list[dict[str, str]] = [
    {"queue": "q"},
    {"task": "work"},
    {"task": "flow"},
    {"task": "flow/second"},
    {"key": "acme"},
    {"key": "tenants/acme"},
]
IDS = ["queue", "task", "flow", "step", "key", "limit key"]


class App:
    """One job of each kind, of which a pause stops some."""

    def __init__(self, hw: Headway) -> None:
        self.hw = hw

        @hw.task(queue="q")
        async def in_queue() -> str:
            return "queue"

        @hw.task
        async def work() -> str:
            return "task"

        @hw.task(concurrency_key=Key("acme", limit=2))
        async def keyed() -> str:
            return "key"

        @hw.task(limit=Limit(key=lambda: "acme", concurrency=2))
        async def tenants() -> str:
            return "limit key"

        flow = hw.flow("flow")

        @flow.step
        async def first() -> Any:
            return second.next()

        @flow.step
        async def second() -> str:
            return "flow"

        self.tasks: dict[str, Any] = {
            "queue": in_queue,
            "task": work,
            "key": keyed,
            "limit key": tenants,
            "flow": flow,
        }

    async def enqueue(self) -> dict[str, Any]:
        return {kind: await task.enqueue() for kind, task in self.tasks.items()}


@pytest.mark.parametrize("paused", PAUSED, ids=IDS)
async def test_only_what_is_paused_waits_and_explain_says_so(
    hw: Headway, db: psycopg.Connection[Any], paused: dict[str, str], request: Any
) -> None:
    app = App(hw)
    stopped = {"step": "flow"}.get(request.node.callspec.id, request.node.callspec.id)
    await hw.controls.pause(**paused, reason="API down", actor="ada")
    jobs = await app.enqueue()
    await hw.run_until_idle()
    for kind, job in jobs.items():
        ended = (await job.status()).state == "succeeded"
        assert ended == (kind != stopped), kind
    (said,) = db.execute("select explain(%s)", [jobs[stopped].id]).fetchone() or ("",)
    kind, name = next(iter(paused.items()))
    again = name if kind == "queue" else f"--{kind} {name}"
    opens = f"`headway queue resume {again}` opens it"
    assert f"{kind} {name} is paused by ada: API down; {opens}" in said
    assert await hw.controls.resume(**paused)
    assert not await hw.controls.resume(**paused)
    await hw.run_until_idle()
    assert await jobs[stopped].result(timeout=DEADLINE) == stopped


@pytest.mark.parametrize("paused", PAUSED, ids=IDS)
async def test_a_pause_until_a_time_ends_by_itself_exactly_then(
    hw: Headway, paused: dict[str, str]
) -> None:
    """In a time of the test's own."""
    app = App(hw)
    hw._session.clock.fixed = datetime(2040, 1, 1, tzinfo=UTC)
    await hw.controls.pause(**paused, until="1h")
    jobs = await app.enqueue()
    assert (await hw.run_until_idle()).total >= 4
    hw._session.clock.advance(timedelta(seconds=3599))
    assert (await hw.run_until_idle()).total == 0
    assert [row.paused for row in await hw.controls.list() if row.paused] == [True]
    hw._session.clock.advance(timedelta(seconds=1))
    assert (await hw.run_until_idle()).total >= 1
    for kind, job in jobs.items():
        assert await job.result(timeout=DEADLINE) == kind
    assert not any(row.paused for row in await hw.controls.list())


@pytest.mark.parametrize("paused", PAUSED, ids=IDS)
async def test_workers_that_are_asleep_wake_when_a_pause_ends(
    hw: Headway, start: Start, db: psycopg.Connection[Any], paused: dict[str, str]
) -> None:
    """There is no poll for an hour, and the jobs come when the pause is there."""
    app = App(hw)
    for _ in range(2):
        start(poll="1h", poll_alone="1h")
    await eventually(lambda: db.execute("select count(*) = 2 from worker").fetchone() == (True,))
    await hw.controls.pause(**paused, until="1s")
    jobs = await app.enqueue()
    for kind, job in jobs.items():
        assert await job.result(timeout=DEADLINE) == kind


async def test_resuming_wakes_workers_at_once(hw: Headway, start: Start) -> None:
    app = App(hw)
    start(poll="1h", poll_alone="1h")
    for paused in PAUSED:
        await hw.controls.pause(**paused)
    jobs = await app.enqueue()
    for paused in PAUSED:
        assert await hw.controls.resume(**paused)
    for kind, job in jobs.items():
        assert await job.result(timeout=DEADLINE) == kind


async def test_what_runs_goes_on_and_nothing_follows_it(
    hw: Headway, start: Start, record: Record
) -> None:
    gate = asyncio.Event()

    @hw.task(queue="q", concurrency_key=Key("acme", limit=3))
    async def work() -> None:
        await gate.wait()

    start(poll="1h", concurrency=2)
    await work.enqueue_many([{}] * 6)
    await eventually(lambda: record.running() == 2)
    await hw.controls.pause(key="acme", reason="enough")
    await hw.queues.pause("elsewhere")
    gate.set()
    await eventually(lambda: record.left() == 4)
    assert len(record.starts()) == 2
    await hw.controls.resume(key="acme")
    await eventually(lambda: record.left() == 0)


async def test_a_pause_is_shown_everywhere(hw: Headway) -> None:
    await hw.queues.pause("mail", reason="provider down", actor="ada", until="1h")
    await hw.queues.limit("mail", concurrency=3, rate="90/min", actor="bob")
    (row,) = await hw.controls.list()
    assert (row.kind, row.name, row.paused) == ("queue", "mail", True)
    assert (row.paused_by, row.pause_reason) == ("ada", "provider down")
    assert row.paused_for is not None
    assert 3500 < row.paused_for <= 3600
    assert (row.concurrency, row.rate, row.burst, row.changed_by) == (3, 1.5, 1, "bob")
    (queue,) = await hw.queues.list()
    assert (queue.concurrency, queue.rate, queue.paused_until) == (3, 1.5, row.paused_until)
    (again,) = hw.controls.list_sync()
    assert (again.name, again.paused_at) == (row.name, row.paused_at)


async def test_what_makes_no_sense_is_refused(hw: Headway) -> None:
    controls = hw.controls
    for call in (
        lambda: controls.pause(),
        lambda: controls.pause(queue="a", task="b"),
        lambda: controls.resume(task="b", key="c"),
        lambda: controls.limit(concurrency=1),
        lambda: controls.limit(queue="a", keys_of="b", concurrency=1),
        lambda: controls.reset(),
    ):
        with pytest.raises(ConfigError, match="give exactly one of"):
            await call()
    with pytest.raises(ConfigError, match="queue ''"):
        await controls.pause(queue="")
    with pytest.raises(ConfigError, match="until"):
        await controls.pause(queue="a", until=datetime(2040, 1, 1))
    for numbers, words in (
        ({"concurrency": -1}, "concurrency -1"),
        ({"rate": "often"}, "rate 'often'"),
        ({"concurrency": 1, "burst": 5}, "needs a rate"),
        ({"rate": "1/s", "burst": 0}, "burst 0"),
    ):
        with pytest.raises(ConfigError, match=words):
            await controls.limit(queue="a", **numbers)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="concurrency 0"):
        await controls.limit(keys_of="a", concurrency=0)
    assert await controls.list() == []


async def test_of_a_pause_that_is_over_nothing_is_left_to_be_seen(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    await hw.controls.pause(queue="mail", actor="ada")
    await hw.controls.limit(queue="other", concurrency=3)
    assert {row.name for row in await hw.controls.list()} == {"mail", "other"}
    await hw.controls.resume(queue="mail")
    assert [row.name for row in await hw.controls.list()] == ["other"]
    assert [row.name for row in hw.controls.list_sync()] == ["other"]
    assert db.execute("select name from controls").fetchall() == [("other",)]
