"""Whatever an exception is like, it is stored: type, message, traceback and chain (G7)."""

import json
import threading
from collections.abc import Callable

import pytest

from headway import Headway, Retry, Task
from tests.engine import odd_errors
from tests.engine.odd_errors import ODD


@pytest.fixture(params=["async", "thread", "process"])
def fail(request: pytest.FixtureRequest, hw: Headway) -> Callable[[str], object]:
    """Enqueues a job that raises an odd error, on each kind of executor."""

    async def on_the_loop(kind: str) -> None:
        raise ODD[kind]()

    def in_a_thread(kind: str) -> None:
        raise ODD[kind]()

    if request.param == "process":
        task = hw.tasks["in_a_process"] = Task(hw._session, odd_errors.in_a_process.definition)
    else:
        task = hw.task(retry=Retry(1))(on_the_loop if request.param == "async" else in_a_thread)
    return task


async def test_g7_every_odd_error_is_stored_and_hurts_nobody_else(hw: Headway, fail) -> None:
    jobs = {kind: await fail.enqueue(kind) for kind in ODD}
    await hw.run_until_idle(processes=1)
    told = {kind: await job.status() for kind, job in jobs.items()}
    assert {kind for kind, status in told.items() if status.state != "failed"} == set()
    for kind, status in told.items():
        assert status.error["type"], kind
        assert "Traceback" in status.error["traceback"], kind
        assert (await jobs[kind].attempts())[0].error == status.error
    assert "its __str__ raised LookupError" in told["odd text"].error["message"]
    assert told["locked"].error["message"] == "holds a lock"
    assert told["nul"].error["message"] == "a\\0b"
    assert told["chain"].error["chain"] == [
        {"type": "KeyError", "message": "'middle'"},
        {"type": "OSError", "message": "root"},
    ]
    assert "ValueError: first of two" in told["group"].error["traceback"]
    assert told["local"].error["type"].endswith("make_local.<locals>.Local")
    assert told["deep"].error["type"] == "RecursionError"


async def test_g7_what_is_stored_is_plain_json_for_any_language(hw: Headway, db) -> None:
    @hw.task(retry=Retry(1))
    async def task() -> None:
        raise ValueError({"lock": threading.Lock()})

    await task.enqueue()
    await hw.run_until_idle()
    (text,) = db.execute("select error::text from jobs").fetchone()
    assert set(json.loads(text)) == {"type", "message", "traceback", "chain"}
