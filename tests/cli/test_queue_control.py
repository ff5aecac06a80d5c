"""`headway queue pause | resume | limit | limits`, of queues, tasks and keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headway import Headway, Limit
from tests.cli.conftest import Command

Json = Callable[..., Any]


@pytest.mark.parametrize(
    ("words", "kind", "name", "again"),
    [
        (["mail"], "queue", "mail", "mail"),
        (["--task", "flow/step"], "task", "flow/step", "--task flow/step"),
        (["--key", "acme"], "key", "acme", "--key acme"),
    ],
)
def test_a_pause_says_how_to_open_it_again(
    headway: Command, headway_json: Json, words: list[str], kind: str, name: str, again: str
) -> None:
    said = headway("queue", "pause", *words, "--reason", "API down", "--actor", "ada").stdout
    assert f"{kind} {name}" in said
    assert f"`headway queue resume {again}`" in said
    (row,) = headway_json("queue", "limits")
    assert (row["kind"], row["name"], row["paused"]) == (kind, name, True)
    assert (row["paused_by"], row["pause_reason"]) == ("ada", "API down")
    assert "by ada: API down" in " ".join(headway("queue", "limits").stdout.split())
    headway("queue", "resume", *words)
    answer = headway_json("queue", "resume", *words, code=1)
    assert answer == {kind: name, "paused": False, "resumed": False}


def test_a_pause_until_then_opens_by_itself(headway: Command, headway_json: Json) -> None:
    headway("queue", "pause", "mail", "--until", "90m")
    (row,) = headway_json("queue", "limits")
    assert 5300 < row["paused_for"] <= 5400
    answer = headway_json("queue", "pause", "mail", "--until", "5m", "--actor", "ada")
    about = {"queue": "mail", "paused": True, "actor": "ada", "reason": None}
    assert answer == about | {"for": 300.0, "until": None}
    then = "2999-01-31T08:00:00Z"
    headway("queue", "pause", "mail", "--until", then)
    assert headway_json("queue", "limits")[0]["paused_until"].startswith("2999-01-31T08:00:00")
    for until in ("2020-01-01T00:00Z", "2030-01-01"):
        headway("queue", "pause", "mail", "--until", until, code=2)


def test_a_limit_is_set_lifted_and_taken_back(
    headway: Command, headway_json: Json, app: Headway
) -> None:
    @app.task(name="resize", limit=Limit(concurrency=2))
    async def resize() -> None: ...

    app.run_until_idle_sync()
    (row,) = headway_json("queue", "limits")
    assert (row["kind"], row["name"], row["concurrency"]) == ("task", "resize", 2)
    assert "code" in headway("queue", "limits").stdout

    limit = ("queue", "limit", "--task", "resize")
    said = headway(*limit, "--concurrency", 5, "--rate", "100/min", "--burst", 9, "--actor", "ada")
    assert said.stdout == "task resize: 5 at once, 100/min in bursts of 9\n"
    (row,) = headway_json("queue", "limits")
    assert (row["changed_by"], row["declared"]["concurrency"]) == ("ada", 2)
    assert headway(*limit, "--none").stdout == "task resize: no limit\n"
    assert headway(*limit, "--reset").stdout == "task resize: 2 at once\n"
    headway(*limit, "--reset", code=1)


def test_wherever_a_pause_is_shown_it_says_how_long_it_lasts(headway: Command) -> None:
    headway("queue", "pause", "mail", "--actor", "ada", "--until", "90m")
    for command in (["queue", "limits"], ["queue", "list"], ["health"]):
        assert "by ada, resumes in 1h" in " ".join(headway(*command).stdout.split())


def test_limits_of_queues_and_of_each_key(headway: Command, headway_json: Json) -> None:
    assert headway_json("queue", "limits") == []
    assert headway("queue", "limit", "mail", "--concurrency", 0).stdout == "queue mail: 0 at once\n"
    said = headway("queue", "limit", "--keys-of", "sync", "--rate", "1/10s").stdout
    assert said == "each key of sync: 6/min\n"
    answer = headway_json("queue", "limit", "mail", "--rate", "10/s")
    assert (answer["kind"], answer["name"], answer["rate"]) == ("queue", "mail", 10.0)
    assert "@" in answer["changed_by"], "the person at the keyboard"
    shown = " ".join(headway("queue", "limits").stdout.split())
    assert "each key of" in shown
    assert headway("queue", "limit", "mail", "--reset").stdout == "queue mail: no limit\n"


def test_a_limit_holds_for_what_runs(headway: Command, app: Headway) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    send.enqueue_many_sync([{}] * 5)
    headway("queue", "limit", "mail", "--rate", "1/h", "--burst", 2)
    assert app.run_until_idle_sync().total == 2
    headway("queue", "limit", "mail", "--none")
    assert app.run_until_idle_sync().total == 3


def test_explain_says_why_a_job_waits(headway: Command, app: Headway) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    job = send.enqueue_sync()
    headway("queue", "pause", "mail", "--actor", "ada", "--until", "1h")
    headway("queue", "limit", "--task", "send", "--concurrency", 0)
    said = " ".join(headway("job", "explain", job.id).stdout.split())
    assert (
        "queue mail is paused by ada; `headway queue resume mail` opens it, else it opens" in said
    )
    assert "task send has 0 of 0 running" in said


def test_what_makes_no_sense_is_a_usage_error(headway: Command, headway_json: Json) -> None:
    for words in (
        "pause",
        "pause mail --task send",
        "resume",
        "limit mail",
        "limit mail --none --reset",
        "limit mail --rate 1/s --none",
        "limit --concurrency 1",
        "limit mail --keys-of x --rate 1/s",
        "limit mail --concurrency 1 --burst 2",
        "limit --keys-of x --concurrency 0",
    ):
        headway("queue", *words.split(), code=2)
    assert headway_json("queue", "limits") == []


def test_a_task_that_nobody_has_declared_is_most_likely_a_slip(
    headway: Command, app: Headway
) -> None:
    @app.task(name="resize")
    async def resize() -> None: ...

    flow = app.flow("order")

    @flow.step
    async def pay() -> None: ...

    app.run_until_idle_sync()  # a worker declares them
    for words in (
        ("queue", "pause", "--task"),
        ("queue", "limit", "--concurrency", "2", "--task"),
        ("queue", "limit", "--concurrency", "2", "--keys-of"),
        ("schedule", "put", "nightly", "{task}", "@daily"),
    ):
        given = [*words] if "{task}" in words else [*words, "{task}"]
        for known in ("resize", "order/pay"):
            if words[0] == "schedule" and known != "resize":
                continue
            told = headway(*(word.format(task=known) for word in given))
            assert "note:" not in told.stderr
        told = headway(*(word.format(task="resise") for word in given))
        assert "no worker has declared task 'resise' yet; did you mean 'resize'?" in told.stderr
    assert "note:" not in headway("queue", "pause", "--task", "order").stderr
    assert "declared" not in headway("queue", "pause", "resise").stderr
