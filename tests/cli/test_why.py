"""`job show` and `job explain` say why a job is not running."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from headway import Headway
from headway.store.statements import fleet
from tests.cli.conftest import Command

Why = Callable[[object], list[str]]


@pytest.fixture
def why(headway: Command, headway_json: Callable[..., Any]) -> Why:
    """The reasons of a job, as programs get them, after a check that people get them too."""

    def ask(job_id: object) -> list[str]:
        reasons: list[str] = headway_json("job", "explain", job_id)["reasons"]
        shown = headway("job", "show", job_id).stdout
        assert shown.count("\nwhy ") == len(reasons)
        for words in (shown, headway("job", "explain", job_id).stdout):
            for reason in reasons:
                if "due in" not in reason and "run for" not in reason:  # another moment by now
                    assert reason in " ".join(words.split())
        return reasons

    return ask


def _worker(app: Headway, *, queues: list[str], tasks: list[str], lease: float = 60) -> int:
    """A worker's row, as one leaves it that is alive and does nothing."""
    row = fleet.register("elsewhere:1", "0", 10, queues, tasks, lease, None)
    return app._session.client.run_sync(row)


@pytest.fixture
def job_id(app: Headway) -> object:
    @app.task(queue="mail")
    async def send() -> None: ...

    return send.enqueue_sync().id


def test_no_worker_at_all(why: Why, job_id: object) -> None:
    assert why(job_id) == ["no worker is alive; start one: headway worker module:hw"]


def test_a_worker_that_is_gone_does_not_count(why: Why, job_id: object, app: Headway) -> None:
    _worker(app, queues=["mail"], tasks=["send"], lease=0)
    assert why(job_id) == ["no worker is alive; start one: headway worker module:hw"]


def test_nobody_serves_the_queue(why: Why, job_id: object, app: Headway) -> None:
    _worker(app, queues=["default"], tasks=["send"])
    assert why(job_id) == ["no live worker serves queue mail; start one with -q mail"]


def test_g8_nobody_knows_the_task(why: Why, job_id: object, app: Headway) -> None:
    _worker(app, queues=["mail"], tasks=["other"])
    assert why(job_id) == ["no live worker knows task send; deploy an app that defines it"]


def test_one_knows_the_task_and_another_serves_the_queue(
    why: Why, job_id: object, app: Headway
) -> None:
    _worker(app, queues=["default"], tasks=["send"])
    _worker(app, queues=["mail"], tasks=["other"])
    assert why(job_id) == ["no live worker that knows task send serves queue mail"]


def test_the_queue_is_paused_by_someone_for_a_reason(
    why: Why, job_id: object, app: Headway
) -> None:
    _worker(app, queues=["mail"], tasks=["send"])
    app.queues.pause_sync("mail", reason="provider down", actor="ada@desk")
    assert why(job_id) == [
        "queue mail is paused by ada@desk: provider down; `headway queue resume mail` opens it"
    ]


def test_it_only_waits_for_its_turn(why: Why, job_id: object, app: Headway) -> None:
    _worker(app, queues=["mail"], tasks=["send"])
    assert why(job_id) == ["it waits for a free slot of a worker, next in its queue"]


def test_it_is_not_due_yet(why: Why, app: Headway) -> None:
    @app.task
    async def later() -> None: ...

    job = later.using(delay="90m").enqueue_sync()
    (reason,) = why(job.id)
    assert reason.startswith("it is due in 1h")


def test_its_worker_was_lost(why: Why, job_id: object, db: psycopg.Connection[Any]) -> None:
    db.execute(
        "update job set state = 'x', worker_id = 77, claim = 1, attempt = 1, claimed_at = now()"
    )
    db.execute("insert into stop_request (job_id, asked_at) select id, now() from job")
    running, *reasons = why(job_id)
    assert running.startswith("it has run for ")
    assert running.endswith(" on worker 77, attempt 1 of 20")
    assert reasons == [
        "it was asked to stop",
        "worker 77 was lost; another worker takes the job back as soon as one is alive",
    ]


def test_it_waits_for_room_under_its_key(why: Why, app: Headway) -> None:
    @app.task
    async def sync() -> None: ...

    keyed = sync.using(concurrency_key="account-7")
    first, second = keyed.enqueue_sync(), keyed.enqueue_sync()
    _worker(app, queues=["default"], tasks=["sync"])
    assert why(first.id) == ["key account-7 has room for it, and a worker is about to admit it"]
    assert why(second.id) == ["it is number 2 in line"]


def test_what_became_of_a_job_that_ended_is_explained_but_is_no_reason(
    headway: Command, headway_json: Callable[..., Any], job_id: object, app: Headway
) -> None:
    app.job(str(job_id)).cancel_sync()
    (what,) = headway_json("job", "explain", job_id)["reasons"]
    assert what.startswith("it was cancelled ")
    assert headway_json("job", "show", job_id)["why"] == []
    assert "\nwhy " not in headway("job", "show", job_id).stdout


def test_of_no_such_job_there_is_nothing_to_explain(headway: Command) -> None:
    result = headway("job", "explain", uuid4(), code=1)
    assert (result.stdout, result.stderr[:13]) == ("", "error: no job")
