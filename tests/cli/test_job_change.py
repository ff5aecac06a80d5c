"""`job retry` and `job cancel`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from headway import Fatal, Headway, Task
from tests.cli.conftest import Command


@pytest.fixture
def task(app: Headway) -> Task[..., None]:
    @app.task
    async def breaks(fatally: bool = True) -> None:
        if fatally:
            raise Fatal("no")

    return breaks


def test_a_waiting_job_is_cancelled(headway: Command, task: Task[..., None]) -> None:
    job = task.enqueue_sync()
    headway("job", "cancel", job.id)
    assert job.status_sync().state == "cancelled"


def test_a_running_job_is_asked_to_stop(
    headway: Command, task: Task[..., None], db: psycopg.Connection[Any]
) -> None:
    job = task.enqueue_sync()
    db.execute("update job set state = 'x', worker_id = 77, claim = 1, attempt = 1")
    headway("job", "cancel", job.id)
    assert job.status_sync().cancelling


def test_a_failed_job_is_retried(headway: Command, task: Task[..., None], app: Headway) -> None:
    job = task.enqueue_sync()
    app.run_until_idle_sync()
    headway("job", "retry", job.id)
    status = job.status_sync()
    assert (status.state, status.attempt) == ("ready", 0)


def test_what_had_ended_is_not_cancelled(
    headway: Command, task: Task[..., None], app: Headway
) -> None:
    job = task.enqueue_sync()
    app.run_until_idle_sync()
    assert headway("job", "cancel", job.id, code=1).stdout == ""


def test_what_succeeded_is_not_retried(
    headway: Command, task: Task[..., None], app: Headway
) -> None:
    job = task.enqueue_sync(fatally=False)
    app.run_until_idle_sync()
    headway("job", "retry", job.id, code=1)
    assert job.status_sync().state == "succeeded"


@pytest.mark.parametrize("change", ["retry", "cancel"])
def test_no_such_job_is_exit_code_1(headway: Command, change: str) -> None:
    headway("job", change, uuid4(), code=1)


def test_several_are_changed_and_the_one_that_is_not_there_is_named(
    headway: Command, headway_json: Callable[..., Any], task: Task[..., None]
) -> None:
    first, second, missing = task.enqueue_sync(), task.enqueue_sync(), uuid4()
    answer = headway_json("job", "cancel", first.id, missing, second.id, code=1)
    assert answer == [
        {"id": str(first.id), "cancelled": True, "state": "cancelled"},
        {"id": str(missing), "cancelled": False, "state": None},
        {"id": str(second.id), "cancelled": True, "state": "cancelled"},
    ]
    assert str(missing) in headway("job", "cancel", missing, code=1).stderr


def test_programs_are_told_what_was_retried(
    headway_json: Callable[..., Any], task: Task[..., None]
) -> None:
    job = task.using(delay="1h").enqueue_sync()
    answer = headway_json("job", "retry", job.id)
    assert answer == [{"id": str(job.id), "retried": True, "state": "ready"}]


def test_an_id_is_required(headway: Command) -> None:
    headway("job", "cancel", code=2)
