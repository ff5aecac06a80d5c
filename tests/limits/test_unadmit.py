"""A pause of a queue or task holds up no other job: others of the same keys go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from headway import Headway, Key, Limit
from headway.core.clock import monotonic
from headway.engine.claiming.planner import ClaimPlanner
from headway.engine.keys import admitting
from headway.engine.keys.admission import KeyAdmission
from headway.engine.keys.admitting import Admitter
from headway.store.connections.engine_connection import EngineConnection
from headway.store.statement import Statement
from tests.limits.record import Record
from tests.support import DEADLINE, Running, eventually

Start = Callable[..., Running]

OPTIONS: dict[str, dict[str, Any]] = {
    "key": {"concurrency_key": Key("acme", limit=1)},
    "limit": {"limit": Limit(key=lambda: "acme", concurrency=1)},
    "rate": {"limit": Limit(key=lambda: "acme", rate="20/s", burst=1)},
}


@pytest.fixture(params=OPTIONS.values(), ids=OPTIONS)
def task(hw: Headway, request: pytest.FixtureRequest) -> Any:
    @hw.task(**request.param)
    async def work() -> str:
        return "done"

    return work


async def test_a_job_admitted_before_a_pause_gives_its_room_back_and_runs_after_it(
    hw: Headway, start: Start, db: psycopg.Connection[Any], task: Any
) -> None:
    """They do not poll for an hour: they are notified."""
    start(queues={"open": 1}, poll="1h", poll_alone="1h")
    shut = [await task.using(queue="bulk").enqueue() for _ in range(3)]
    ready = "select count(*) = 1 from job where state = 'r'"
    await eventually(lambda: db.execute(ready).fetchone() == (True,))
    able = [await task.using(queue="open").enqueue() for _ in range(5)]
    await hw.queues.pause("bulk", actor="ada", reason="too much")
    for job in able:
        assert await job.result(timeout=DEADLINE) == "done"
    start(queues={"bulk": 1}, poll="1h", poll_alone="1h")
    for job in shut:
        assert (await job.status()).state in ("blocked", "ready")
        (said,) = db.execute("select explain(%s)", [job.id]).fetchone() or ("",)
        assert said.startswith("queue bulk is paused by ada: too much")
    await hw.queues.resume("bulk")
    for job in shut:
        assert await job.result(timeout=DEADLINE) == "done"


async def test_skipped_jobs_are_admitted_when_the_pause_ends_by_itself(
    hw: Headway, start: Start, db: psycopg.Connection[Any], task: Any
) -> None:
    start(queues={"*": 1}, poll="1h", poll_alone="1h")
    await eventually(lambda: db.execute("select count(*) = 1 from worker").fetchone() == (True,))
    await hw.queues.pause("bulk", until="1s")
    shut = [await task.using(queue="bulk").enqueue() for _ in range(3)]
    able = [await task.using(queue="open").enqueue() for _ in range(3)]
    for job in (*able, *shut):
        assert await job.result(timeout=DEADLINE) == "done"


async def test_a_pause_that_ends_in_the_middle_of_a_scan_is_not_slept_over(
    hw: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hw.migrate()
    link = EngineConnection(hw._session.target)
    planner = ClaimPlanner({"default": 1}, {}, ["task"], {}, 1)
    keys = KeyAdmission(link, hw._session.clock, planner, lambda: None)
    admitter = Admitter(keys, hw._session.clock, 3600.0)
    admitter.lead(True)
    await hw.queues.pause("bulk", until="10m")
    run, turned = link.run, False

    async def while_time_passes(statement: Statement[Any]) -> Any:
        nonlocal turned
        answer = await run(statement)
        if statement.name == "reads/lines":  # it knows of the pause by now, and looks at the lines
            turned = True
            monkeypatch.setattr(admitting, "monotonic", lambda: monotonic() + 660)
        return answer

    monkeypatch.setattr(link, "run", while_time_passes)
    rest = await admitter.turn()
    await link.close()
    assert turned
    assert rest == 0, "the next look is due"


async def test_until_idle_runs_the_jobs_that_can_run(hw: Headway, task: Any) -> None:
    shut = await task.using(queue="bulk").enqueue()
    await hw.run_until_idle(queues={"elsewhere": 1})  # admits it, and does not serve it
    assert (await shut.status()).state in ("ready", "blocked")
    await hw.controls.pause(queue="bulk")
    able = await task.using(queue="open").enqueue()
    assert (await hw.run_until_idle(queues={"*": 1})).total == 1
    assert (await able.status()).state == "succeeded"


async def test_a_pause_of_one_task_holds_up_no_other_of_the_key(
    hw: Headway, start: Start, record: Record
) -> None:
    gate = asyncio.Event()

    @hw.task(concurrency_key=Key("acme", limit=2))
    async def slow() -> None:
        await gate.wait()

    @hw.task(concurrency_key=Key("acme", limit=2))
    async def quick() -> None: ...

    start(poll="1h", concurrency=1)
    await slow.enqueue_many([{}] * 4)  # one runs, one more was admitted
    await eventually(lambda: record.running() == 1)
    await hw.controls.pause(task="slow")
    start(poll="1h", concurrency=1)
    done = [await quick.enqueue() for _ in range(4)]
    for job in done:
        await job.result(timeout=DEADLINE)
    assert record.running() == 1
    gate.set()
    await hw.controls.resume(task="slow")
    await eventually(lambda: record.left() == 0)
