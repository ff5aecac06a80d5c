from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from headway import Fatal, Headway, Retry
from tests.cli.conftest import Command


def test_a_succeeded_job_shows_its_input_and_result(
    headway: Command, headway_json: Callable[..., Any], app: Headway
) -> None:
    @app.task(queue="sums", priority=7)
    async def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    job = add.using(headers={"trace": "abc"}).enqueue_sync(1, b=2)
    app.run_until_idle_sync()
    shown = headway("job", "show", job.id).stdout
    for words in (str(job.id), "sums, priority 7", '{"a":1,"b":2}', '{"sum":3}', '"trace":"abc"'):
        assert words in shown
    told = headway_json("job", "show", job.id)
    assert told["state"] == "succeeded"
    assert told["input"] == {"a": 1, "b": 2}
    assert told["result"] == {"sum": 3}
    assert told["headers"] == {"trace": "abc"}
    assert told["attempts"] == []
    assert told["why"] == []


def test_g7_a_failed_job_shows_every_attempt_with_its_traceback(
    headway: Command, headway_json: Callable[..., Any], app: Headway
) -> None:
    @app.task(retry=Retry(max_attempts=3, base=0))
    async def breaks(number: int) -> None:
        raise ValueError(f"number {number} is too high")

    job = breaks.enqueue_sync(13)
    app.run_until_idle_sync()
    shown = headway("job", "show", job.id).stdout
    assert "error: ValueError: number 13 is too high" in shown
    for attempt in (1, 2, 3):
        assert f"attempt {attempt} failed" in shown
    assert "Traceback (most recent call last)" in shown
    assert "raise ValueError" in shown
    told = headway_json("job", "show", job.id)
    assert [attempt["attempt"] for attempt in told["attempts"]] == [1, 2, 3]
    assert "raise ValueError" in told["attempts"][0]["error"]["traceback"]


def test_what_a_job_holds_cannot_steer_the_terminal(headway: Command, app: Headway) -> None:
    @app.task
    async def rude(text: str) -> None:
        raise Fatal(f"{text} [bold]")

    job = rude.enqueue_sync("\x1b]0;owned\x07")
    app.run_until_idle_sync()
    for command in (["job", "show", job.id], ["job", "list"]):
        shown = headway(*command).stdout
        assert "\x1b" not in shown
        assert "\\x1b]0;owned\\x07 [bold]" in shown


def test_no_such_job_is_exit_code_1(headway: Command) -> None:
    result = headway("job", "show", uuid4(), code=1)
    assert result.stderr.startswith("error: no job")
    assert result.stdout == ""


def test_what_is_no_id_is_a_usage_error(headway: Command) -> None:
    assert "is not a valid UUID" in headway("job", "show", "seven", code=2).stderr
