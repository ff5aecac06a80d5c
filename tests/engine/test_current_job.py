"""The current job: `current_job()`, and the fields of every log record of a handler."""

import asyncio
import logging
import os
from typing import Any

import pytest

from headway import Batch, Depends, Headway, JobFilter, JobInfo, Retry, current_job
from tests.engine import hooked

log = logging.getLogger("library")
ONCE = Retry(1)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture):
    """The fields of the records of a library, by message."""
    caplog.set_level(logging.INFO)

    def fields(message: str) -> list[tuple[Any, ...]]:
        return [
            tuple(getattr(r, name, None) for name in ("job_id", "task", "step", "attempt"))
            for r in caplog.records
            if r.getMessage() == message
        ]

    return fields


async def test_records_of_libraries_carry_the_job_in_every_kind_of_handler(
    hw: Headway, said
) -> None:
    infos: list[JobInfo | None] = []

    def provider() -> int:
        log.info("in a dependency")
        return 1

    @hw.task(queue="mail")
    async def on_loop(n: int = Depends(provider)) -> None:
        infos.append(current_job())
        log.info("on the loop")
        await asyncio.create_task(elsewhere())

    async def elsewhere() -> None:
        log.info("in a task of the handler")

    @hw.task
    def in_thread() -> None:
        infos.append(current_job())
        log.info("in a thread")

    flow = hw.flow("trip")

    @flow.step
    async def pack() -> Any:
        return go.next()

    @flow.step
    async def go() -> None:
        log.info("in a step")

    made = [await one.using(headers={"a": "b"}).enqueue() for one in (on_loop, in_thread, flow)]
    await hw.run_until_idle()
    loop, thread, trip = (str(job.id) for job in made)
    assert said("in a dependency") == [(loop, "on_loop", "", 1)]
    assert said("on the loop") == [(loop, "on_loop", "", 1)]
    assert said("in a task of the handler") == [(loop, "on_loop", "", 1)]
    assert said("in a thread") == [(thread, "in_thread", "", 1)]
    assert said("in a step") == [(trip, "trip", "go", 1)]
    by_task = {info.task: info for info in infos if info is not None}
    info = by_task["on_loop"]
    assert (str(info.job_id), info.queue, info.headers, info.input) == (
        loop,
        "mail",
        {"a": "b"},
        {},
    )
    assert str(by_task["in_thread"].job_id) == thread
    assert current_job() is None


async def test_a_call_for_a_batch_names_its_first_job_and_their_number(hw: Headway, caplog) -> None:
    caplog.set_level(logging.INFO)
    infos: list[JobInfo | None] = []

    @hw.task(batch=Batch(size=3, wait="1h"))
    async def together(items: list[int]) -> None:
        infos.append(current_job())
        log.info("together")

    made = await together.enqueue_many([{"items": n} for n in range(3)])
    await hw.run_until_idle()
    (record,) = (r for r in caplog.records if r.getMessage() == "together")
    assert (record.job_id, record.batch_size) == (str(made[0].id), 3)
    assert [info and (info.job_id, info.batch_size) for info in infos] == [(made[0].id, 3)]


async def test_tasks_that_outlive_a_job_do_not_carry_it(hw: Headway, said) -> None:
    ticking: list[asyncio.Task[None]] = []
    tick = asyncio.Event()

    async def clock() -> int:
        async def run() -> None:
            await tick.wait()
            log.info("tick")

        ticking.append(asyncio.create_task(run()))
        return 1

    @hw.task
    async def job(n: int = Depends(clock, scope="worker")) -> None: ...

    await job.enqueue()
    await hw.run_until_idle()
    tick.set()
    await ticking[0]
    assert said("tick") == [(None, None, None, None)]


async def test_fields_of_the_caller_and_formats_of_the_user_stay_as_they_are(hw: Headway) -> None:
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler, apart = Lines(), logging.getLogger("apart")
    handler.setFormatter(logging.Formatter("%(task)s %(attempt)s %(message)s"))
    apart.propagate, apart.handlers = False, [handler]
    factory = logging.getLogRecordFactory()

    @hw.task
    async def job() -> None:
        apart.error("plain")
        apart.error("own", extra={"task": "mine", "job_id": 7})

    try:
        await job.enqueue()
        await hw.run_until_idle()
        await job.enqueue()
        await hw.run_until_idle()
    finally:
        apart.handlers = []
    assert lines == ["job 1 plain", "mine 1 own"] * 2
    assert [type(one) for one in handler.filters] == [JobFilter]
    assert logging.getLogRecordFactory() is factory


@pytest.mark.parametrize("name", ["say", "say_in_process"])
async def test_records_of_child_processes_carry_the_job(hw: Headway, db, name: str) -> None:
    """`say` is a suspect, so it runs in an isolated child."""
    job = await hooked.adopt(hw, name, hooked.app).enqueue()
    if name == "say":
        db.execute("update job set crashes = 1")
    await hw.run_until_idle(processes=1)
    said, pid = await job.result()
    assert said == f"{job.id} {name}  1 said"
    assert pid != os.getpid()


async def test_failures_are_logged_with_their_traceback(hw: Headway, caplog) -> None:
    @hw.task(retry=Retry(2, backoff="constant", base=0, jitter=0))
    async def broken() -> None:
        raise ValueError("no luck")

    await broken.enqueue()
    await hooked.adopt(hw, "fail_in_process", hooked.app).enqueue()
    with caplog.at_level(logging.WARNING, "headway.worker"):
        await hw.run_until_idle()
    first, last = (r for r in caplog.records if r.task == "broken")
    for record in (first, last):
        kind, error, trace = record.exc_info
        assert (kind, str(error)) == (ValueError, "no luck")
        assert trace.tb_frame.f_code.co_name == "broken", "frames of the worker are left out"
    (record,) = (r for r in caplog.records if r.task == "fail_in_process")
    shown = logging.Formatter().formatException(record.exc_info)
    assert 'raise ValueError("in a child")' in shown
