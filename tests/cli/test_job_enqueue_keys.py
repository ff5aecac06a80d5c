"""`job enqueue` with keys, and of flows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from headway import Headway, Key, Retry
from tests.cli.conftest import APP, Command

WITH_AND_WITHOUT = pytest.mark.parametrize(
    "app_words", [(), ("--app", APP)], ids=["without the app", "with it"]
)


def _status(app: Headway, job_id: str) -> Any:
    return app.job(job_id.strip()).status_sync()


@WITH_AND_WITHOUT
def test_a_concurrency_key_has_its_limit(
    headway: Command, app: Headway, app_words: tuple[str, ...]
) -> None:
    words = ("job", "enqueue", "mail", '{"to": "ada"}', "--concurrency-key", "ada", *app_words)
    assert _status(app, headway(*words).stdout).keys == {"concurrency": "ada", "limit": 1}
    job = _status(app, headway(*words, "--limit", 3).stdout)
    assert (job.keys, job.state) == ({"concurrency": "ada", "limit": 3}, "blocked")
    job = _status(app, headway(*words, "--ordered").stdout)
    assert job.keys == {"concurrency": "ada", "limit": 1, "ordered": True}


@WITH_AND_WITHOUT
def test_a_unique_key_that_is_taken_gives_the_job_that_has_it(
    headway: Command,
    headway_json: Callable[..., Any],
    app: Headway,
    app_words: tuple[str, ...],
) -> None:
    words = ("job", "enqueue", "mail", '{"to": "ada"}', "--unique", "daily", *app_words)
    first = headway_json(*words)
    assert first["created"] is True
    again = headway(*words, code=1)
    assert again.stdout.strip() == first["id"]
    assert headway_json(*words, code=1) == {"id": first["id"], "task": "mail", "created": False}
    assert headway(*words, "--on-taken", "reject", code=1).stdout == ""


@WITH_AND_WITHOUT
def test_a_unique_key_replaces_the_job_that_waits(
    headway_json: Callable[..., Any], app: Headway, app_words: tuple[str, ...]
) -> None:
    options = ("--unique", "daily", "--on-taken", "replace", *app_words)
    first = headway_json("job", "enqueue", "mail", '{"to": "ada"}', *options)
    second = headway_json("job", "enqueue", "mail", '{"to": "bob"}', *options, "--priority", 4)
    assert (second["id"], second["created"]) == (first["id"], False)
    status = _status(app, first["id"])
    assert (status.input, status.priority) == ({"to": "bob"}, 4)


def test_what_workers_declared_of_a_flow_is_known_without_the_app(
    headway: Command, app: Headway
) -> None:
    flow = app.flow("order", queue="orders", priority=2, retry=Retry(max_attempts=9))

    @flow.step
    async def first(order_id: int) -> Any:
        return second.next(n=order_id + 1)

    @flow.step
    async def second(n: int) -> int:
        return n

    app.run_until_idle_sync()  # a worker was here, and said what it knows
    status = _status(app, headway("job", "enqueue", "order", '{"order_id": 7}').stdout)
    assert (status.step, status.queue) == ("first", "orders")
    assert (status.priority, status.max_attempts) == (2, 9)
    app.run_until_idle_sync()
    assert app.job(status.id).result_sync(timeout="60s") == 8


def test_the_id_is_known_to_be_one(headway: Command) -> None:
    assert UUID(headway("job", "enqueue", "anything").stdout.strip()).version == 7


def test_b13_the_key_that_the_task_made_is_named_and_exit_code_1(
    headway: Command, app: Headway
) -> None:
    words = ("job", "enqueue", "daily", '{"day": "monday"}', "--app", APP)
    headway(*words)
    again = headway(*words, code=1)
    assert "the unique key 'day-monday'" in again.stderr


def test_b13_a_job_of_a_task_that_nobody_declared_is_made_with_a_note(
    headway: Command, app: Headway
) -> None:
    assert "no worker has declared task 'nosuch' yet" in headway("job", "enqueue", "nosuch").stderr


def test_b9_keys_that_only_the_code_can_make_are_not_dropped_in_silence(
    headway: Command, app: Headway
) -> None:
    @app.task(unique=lambda order_id: f"o-{order_id}", concurrency_key=Key("k", ordered=True))
    async def ordered(order_id: int) -> None: ...

    app.run_until_idle_sync()  # a worker was here, and said what it knows
    words = ("job", "enqueue", "ordered", '{"order_id": 1}')
    refused = headway(*words, code=2)
    said = " ".join(refused.stderr.split())
    assert "computes its unique_key and concurrency_key in its code" in said
    assert "--app" in said
    assert "--no-keys" in said
    assert refused.stdout == ""
    headway(*words, "--unique", "o-1", code=2)
    given = headway(*words, "--unique", "o-1", "--concurrency-key", "k", "--ordered")
    assert _status(app, given.stdout).keys["unique"] == "o-1"
    assert _status(app, headway(*words, "--no-keys").stdout).keys is None
    headway("schedule", "put", "nightly", "ordered", "@daily", '{"order_id": 1}', code=2)
    headway("schedule", "put", "nightly", "ordered", "@daily", '{"order_id": 1}', "--no-keys")
