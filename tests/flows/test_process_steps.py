"""Steps in processes move, carry state and make jobs as steps elsewhere do."""

import os

import pytest

from headway import Flow, Headway, Task
from tests.flows import process_flows
from tests.flows.adopt import adopt


@pytest.fixture
def app(dsn: str, schema: str) -> Headway:
    """The flows of the module, on the test's schema."""
    app = Headway(dsn, schema=schema, max_payload_bytes=2_000)
    for flow in (process_flows.basket, process_flows.lines):
        adopt(app, flow)
    app.tasks["child"] = Task(app._session, process_flows.child.definition)
    return app


async def test_a_step_in_a_process_moves_on_with_its_state_and_its_jobs_once_it_succeeds(
    app, db
) -> None:
    async with app:
        job = await app.enqueue("basket", thing="ink")
        await app.run_until_idle(queues={"default": 1, "own": 1}, processes=1)
        result = await job.result()
        assert result["things"] == ["ink heavy 2"], "the failed attempt left no mark on the state"
        assert result["pids"][0] == result["pids"][1] != os.getpid()
        status = await job.status()
        assert (status.queue, status.priority, status.max_attempts) == ("own", 6, 3)
        made = db.execute("select id::text, priority, result from jobs where task = 'child'")
        assert made.fetchall() == [(result["child"], 4, 2)]
        assert [(row.step, row.outcome) for row in await job.history()] == [
            ("begin", "moved"),
            ("heavy", "retried"),
            ("heavy", "moved"),
            ("finish", "done"),
        ]


async def test_a_chain_through_processes(app) -> None:
    async with app:
        job = await app.enqueue("lines", text="a b c")
        await app.run_until_idle(processes=1)
        assert await job.result() == 3


async def test_a_move_that_cannot_be_made_fails_a_step_in_a_process_at_once(app) -> None:
    bad = {
        "wrong type": "Expected `array`, got `int`",
        "nul": "NUL",
        "too large": "limit of 2,000",
        "stranger": "lines/split returned basket/finish, which is not a step of its flow",
    }
    async with app:
        jobs = {how: await app.enqueue("lines", text=how) for how in bad}
        await app.run_until_idle(processes=1)
        for how, words in bad.items():
            status = await jobs[how].status()
            assert (status.state, status.step, status.attempt) == ("failed", "split", 1)
            assert status.error["type"] == "InvalidInput"
            assert words in status.error["message"]


async def test_a_state_that_cannot_be_read_fails_a_step_in_a_process_at_once(app, db) -> None:
    async with app:
        start: Flow = app.tasks["basket"]
        job = await start.using(delay="1h").enqueue(thing="a")
        db.execute("update job set carried = '{\"things\": 1}', step = 'heavy'")
        await job.retry()
        await app.run_until_idle(processes=1)
        status = await job.status()
        assert (status.state, status.attempt) == ("failed", 1)
        assert "the state of flow basket" in status.error["message"]
