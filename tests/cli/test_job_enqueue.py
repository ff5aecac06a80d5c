from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import psycopg

from headway import Headway
from tests.cli.conftest import Command

APP = ("--app", "tests.cli.shop:hw")


def _status(app: Headway, job_id: str) -> Any:
    return app.job(job_id.strip()).status_sync()


def test_without_the_app_a_job_is_made_as_it_is_told(headway: Command, app: Headway) -> None:
    job = _status(app, headway("job", "enqueue", "anything", '{"a": [1, null]}').stdout)
    assert (job.task, job.queue, job.state, job.input) == (
        "anything",
        "default",
        "ready",
        {"a": [1, None]},
    )


def test_a_job_made_by_hand_runs(headway: Command, app: Headway) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    job_id = headway("job", "enqueue", "add", '{"a": 1, "b": 2}').stdout.strip()
    app.run_until_idle_sync()
    assert app.job(job_id).result_sync(timeout="60s") == 3


def test_every_option_is_kept(headway: Command, app: Headway) -> None:
    when_and_where = ["--delay", "10m", "--priority", -3, "--queue", "mail", "--ttl", "1h"]
    headers = ["--header", "a=1", "--header", "b=x=y"]
    job = _status(app, headway("job", "enqueue", "send", *when_and_where, *headers).stdout)
    assert (job.state, job.priority, job.queue) == ("scheduled", -3, "mail")
    assert job.headers == {"a": "1", "b": "x=y"}
    assert job.run_at - job.created_at == timedelta(minutes=10)
    assert job.expires_at is not None
    assert job.input == {}


def test_a_moment_is_given_with_its_zone(headway: Command, app: Headway) -> None:
    moment = "2099-01-31T08:00:00+01:00"
    job = _status(app, headway("job", "enqueue", "send", "--at", moment).stdout)
    assert job.run_at == datetime.fromisoformat(moment)


def test_arguments_come_from_standard_input(headway: Command, app: Headway) -> None:
    job = _status(app, headway("job", "enqueue", "send", "-", stdin='{"big": 1}').stdout)
    assert job.input == {"big": 1}


def test_with_the_app_the_task_says_which_queue(headway: Command, app: Headway) -> None:
    job = _status(app, headway("job", "enqueue", "mail", '{"to": "ada"}', *APP).stdout)
    assert job.queue == "mail"


def test_programs_get_the_id(headway_json: Callable[..., Any], app: Headway) -> None:
    answer = headway_json("job", "enqueue", "send")
    assert answer["task"] == "send"
    assert _status(app, answer["id"]).state == "ready"


_REFUSED = [
    ["send", "[1]"],
    ["send", "{oops"],
    ["send", '{"a": "\\u0000"}'],
    ["", "{}"],
    ["send", "--delay", "soon"],
    ["send", "--at", "noon"],
    ["send", "--at", "2030-01-31T08:00:00"],
    ["send", "--at", "2030-01-31T08:00:00Z", "--delay", "1s"],
    ["send", "--header", "novalue"],
    ["send", "--priority", "99999"],
    ["send", "--limit", "2"],
    ["send", "--ordered"],
    ["send", "--concurrency-key", "k", "--limit", "2", "--ordered"],
    ["send", "--concurrency-key", "k\n"],
    ["send", "--unique", ""],
    ["send", "--limit-key", "k", *APP],
    ["send", "--no-keys", *APP],
    ["nope", "{}", *APP],
    ["add", '{"a": 1}', *APP],
    ["add", '{"a": 1, "b": "two"}', *APP],
]


def test_what_cannot_be_right_makes_no_job_and_is_exit_code_2(
    headway: Command, db: psycopg.Connection[Any]
) -> None:
    for words in _REFUSED:
        assert headway("job", "enqueue", *words, code=2).stdout == ""
    assert db.execute("select count(*) from jobs").fetchone() == (0,)
