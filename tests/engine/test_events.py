"""Functions that workers call at events."""

import asyncio
import logging
import threading
from typing import Any

import pytest

from headway import (
    ConfigError,
    Context,
    Fatal,
    Headway,
    JobEvent,
    Retry,
    Snooze,
    WorkerEvent,
    current_job,
)
from headway.engine import event_calls
from tests.engine import hooked
from tests.support import eventually

ENDS = ("succeeded", "advanced", "retried", "snoozed", "failed", "cancelled")


async def test_each_attempt_has_one_event_at_its_start_and_one_at_its_end(
    hw: Headway, start
) -> None:
    told: list[tuple[str, str, int]] = []
    events: dict[tuple[str, str], JobEvent] = {}

    async def on_loop(event: JobEvent) -> None:
        assert current_job() == event.job
        told.append((event.job.handler, event.name, event.job.attempt))
        events[event.job.handler, event.name] = event

    for name in ("started", *ENDS):
        hw.on(name, on_loop)  # type: ignore[call-overload]

    @hw.task(transaction=True)
    async def good() -> None: ...

    @hw.task(retry=Retry(2, backoff="constant", base="10ms", jitter=0))
    def bad() -> None:
        raise ValueError("no")

    @hw.task
    async def ends(how: str) -> None:
        raise Snooze("1h") if how == "snooze" else Fatal("no")

    flow = hw.flow("trip")

    @flow.step
    async def pack() -> Any:
        return go.next()

    @flow.step
    async def go() -> None: ...

    await good.enqueue()
    await bad.enqueue()
    await ends.enqueue("snooze")
    await ends.enqueue("fatal")
    await flow.enqueue()
    start()
    expected = {
        "good": ["started 1", "succeeded 1"],
        "bad": ["started 1", "retried 1", "started 2", "failed 2"],
        "ends": ["failed 1", "snoozed 1", "started 1", "started 1"],
        "trip/pack": ["started 1", "advanced 1"],
        "trip/go": ["started 1", "succeeded 1"],
    }

    def seen() -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for handler, name, attempt in told:
            found.setdefault(handler, []).append(f"{name} {attempt}")
        found.get("ends", []).sort()
        return found

    await eventually(lambda: seen() == expected)
    retried, failed = events["bad", "retried"], events["bad", "failed"]
    assert retried.delay == 0.01
    assert isinstance(failed.exception, ValueError)
    assert failed.error is not None
    assert failed.error["type"] == "ValueError"
    assert events["ends", "snoozed"].delay == 3600


async def test_events_of_jobs_in_children_come_from_the_worker(hw: Headway, db) -> None:
    told: list[tuple[str, str]] = []
    for name in ("started", *ENDS):
        hw.on(name, lambda event: told.append((event.job.task, event.name)))  # type: ignore[call-overload]
    job = await hooked.adopt(hw, "say", hooked.app).enqueue()
    db.execute("update job set crashes = 1 where id = %s", [job.id])
    await hooked.adopt(hw, "fail_in_process", hooked.app).enqueue()
    await hw.run_until_idle(processes=1)
    assert [name for task, name in told if task == "say"] == ["started", "succeeded"]
    assert [name for task, name in told if task == "fail_in_process"] == ["started", "failed"]


async def test_g2_a_lost_claim_has_no_event_of_its_end(hw: Headway, db, start) -> None:
    told: list[str] = []
    for name in ENDS:
        hw.on(name, lambda event: told.append(event.name))  # type: ignore[call-overload]

    @hw.task
    async def job(ctx: Context) -> None:
        db.execute("update job set claim = claim + 1 where id = %s", [ctx.job_id])

    await job.enqueue()
    running = start()
    await eventually(lambda: running.worker.report.lost == 1)
    await running.stop()  # it first calls the functions for the events that wait
    assert told == []


async def test_plain_functions_run_in_order_off_the_loop_and_errors_change_nothing(
    hw: Headway, caplog
) -> None:
    told: list[tuple[str, str]] = []

    @hw.on("worker_started")
    def began(event: WorkerEvent) -> None:
        told.append((event.name, str(event.queues)))

    @hw.on("worker_stopped")
    async def ended(event: WorkerEvent) -> None:
        told.append((event.name, str(event.settled)))

    @hw.on("succeeded")
    def breaks(event: JobEvent) -> None:
        raise SystemExit(3)

    @hw.on("succeeded")
    def plain(event: JobEvent) -> None:
        assert threading.current_thread() is not threading.main_thread()
        told.append((event.name, str(event.job.input["n"])))

    @hw.on("succeeded")
    async def breaks_too(event: JobEvent) -> None:
        raise ValueError("no")

    @hw.task
    async def job(n: int) -> int:
        return n

    made = await job.enqueue_many([{"n": n} for n in range(3)])
    await hw.run_until_idle(concurrency=1)
    assert told == [
        ("worker_started", "['default']"),
        ("succeeded", "0"),
        ("succeeded", "1"),
        ("succeeded", "2"),
        ("worker_stopped", "{'succeed': 3}"),
    ]
    assert [await one.result() for one in made] == [0, 1, 2]
    errors = [r for r in caplog.records if r.levelno == logging.ERROR]
    kinds = [r.exc_info[0] for r in errors if r.exc_info]
    assert (
        sorted(kind.__name__ for kind in kinds if kind) == ["SystemExit"] * 3 + ["ValueError"] * 3
    )
    assert {r.task for r in errors} == {"job"}


async def test_functions_that_hang_hold_up_neither_jobs_nor_the_end(
    hw: Headway, monkeypatch
) -> None:
    monkeypatch.setattr(event_calls, "_END_WITHIN", 0.05)
    monkeypatch.setattr(event_calls, "_MOST_WAITING", 2)

    @hw.on("succeeded")
    async def hang(event: JobEvent) -> None:
        await asyncio.sleep(3600)

    @hw.task
    async def job(n: int) -> int:
        return n

    await job.enqueue_many([{"n": n} for n in range(10)])
    report = await hw.run_until_idle()
    assert report.settled == {"succeed": 10}


def test_an_event_that_does_not_exist_is_refused(hw: Headway) -> None:
    with pytest.raises(ConfigError):
        hw.on("finished", print)  # type: ignore[call-overload]
