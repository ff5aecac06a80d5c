"""A task that is called when a job of another one has failed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any

import pytest

from headway import Failure, Fatal, Headway, Retry
from headway.errors import ConfigError
from headway.store.statements import inspect
from tests.endings import process_tasks
from tests.endings.conftest import Crash, Db
from tests.support import Running, eventually

Heard = list[Failure]


@pytest.fixture
def heard(hw: Headway) -> Heard:
    """The failures that the task `alert` was called with."""
    heard: Heard = []

    @hw.task(queue="alerts")
    async def alert(failure: Failure) -> None:
        heard.append(failure)

    return heard


async def test_it_is_called_with_the_failure_once_the_last_attempt_failed(
    hw: Headway, heard: Heard
) -> None:
    @hw.task(on_failure=hw.get_task("alert"), retry=Retry(max_attempts=3, base=0))
    async def mail(to: str) -> None:
        raise OSError(f"no route to {to}")

    job = await mail.using(headers={"trace": "abc"}).enqueue("ada")
    await hw.run_until_idle()
    (failure,) = heard
    status = await job.status()
    assert isinstance(failure, Failure)
    assert (failure.job_id, failure.task, failure.step) == (job.id, "mail", "")
    assert (failure.queue, failure.attempt) == ("default", 3)
    assert (failure.input, failure.headers) == ({"to": "ada"}, {"trace": "abc"})
    assert failure.error == status.error
    assert failure.failed_at.astimezone(UTC) == status.finished_at


async def test_it_is_not_called_for_what_succeeded_or_was_cancelled(
    hw: Headway, heard: Heard
) -> None:
    tried = list[str]()

    @hw.task(on_failure="alert", retry=Retry(base=0))
    async def mail(kind: str) -> None:
        tried.append(kind)
        if kind == "recovers" and tried.count(kind) == 1:
            raise OSError("once")

    await (await mail.enqueue("cancelled")).cancel()
    await mail.enqueue("recovers")
    await hw.run_until_idle()
    assert (tried, heard) == (["recovers", "recovers"], [])


async def test_of_a_flow_it_is_told_the_step(hw: Headway, heard: Heard) -> None:
    flow = hw.flow("order", on_failure="alert")

    @flow.step
    async def generate(order_id: int) -> Any:
        return email.next(key=f"receipt-{order_id}")

    @flow.step
    async def email(key: str) -> None:
        raise Fatal("no such mailbox")

    job = await flow.enqueue(order_id=7)
    await hw.run_until_idle()
    (failure,) = heard
    assert (failure.job_id, failure.task, failure.step) == (job.id, "order", "email")
    assert failure.input == {"key": "receipt-7"}


@pytest.mark.slow
async def test_a_task_in_a_process_has_one_too(hw: Headway, heard: Heard) -> None:
    function = process_tasks.crunch.definition.function
    crunch = hw.task(executor="process", on_failure="alert")(function)
    job = await crunch.enqueue(7)
    await hw.run_until_idle(processes=1)
    (failure,) = heard
    assert failure.job_id == job.id
    assert failure.error["message"] == "cannot crunch 7"


async def test_g6_it_is_called_for_a_job_that_a_crash_failed(
    hw: Headway, heard: Heard, crash: Crash, start: Callable[..., Running]
) -> None:
    @hw.task(on_failure="alert")
    async def mail(to: str) -> None: ...

    await hw.run_until_idle()
    job = await mail.enqueue("ada")
    crash(job.id)
    start()
    (failure,) = await eventually(lambda: heard)
    assert (failure.job_id, failure.error["type"]) == (job.id, "WorkerLost")
    assert failure.input == {"to": "ada"}


async def test_a_task_that_nobody_knows_waits_and_shows_as_stranded(hw: Headway) -> None:
    @hw.task(on_failure="nobody")
    async def mail() -> None:
        raise Fatal("no")

    await mail.enqueue()
    await hw.run_until_idle()
    assert await hw._session.client.run(inspect.stranded(None)) == {"nobody": 1}


async def test_one_that_fails_itself_calls_nobody(hw: Headway, db: Db) -> None:
    """Not another that would call it again, and so on for ever."""

    @hw.task(on_failure="second")
    async def first(failure: Failure | None = None) -> None:
        raise Fatal("first")

    @hw.task(on_failure="first")
    async def second(failure: Failure) -> None:
        raise Fatal("second")

    await first.enqueue()
    await hw.run_until_idle()
    states = db.execute("select task, state from jobs order by task").fetchall()
    assert states == [("first", "failed"), ("second", "failed")]


def test_a_task_is_not_called_for_its_own_failures(hw: Headway) -> None:
    with pytest.raises(ConfigError, match="itself"):

        @hw.task(on_failure="itself")
        async def itself() -> None: ...
