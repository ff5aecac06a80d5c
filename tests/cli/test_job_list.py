from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headway import Fatal, Headway
from tests.cli.conftest import Command


@pytest.fixture
def five(app: Headway) -> dict[str, str]:
    """One job in each of five states, oldest first; ids by state."""

    @app.task
    async def fine() -> int:
        return 1

    @app.task(queue="mail")
    async def broken() -> None:
        raise Fatal("beyond repair\nsecond line")

    done, failed = fine.enqueue_sync(), broken.enqueue_sync()
    app.run_until_idle_sync()
    cancelled = fine.enqueue_sync()
    cancelled.cancel_sync()
    ready, scheduled = fine.enqueue_sync(), fine.using(delay="10m").enqueue_sync()
    return {
        "succeeded": str(done.id),
        "failed": str(failed.id),
        "cancelled": str(cancelled.id),
        "ready": str(ready.id),
        "scheduled": str(scheduled.id),
    }


def test_jobs_are_listed_newest_first(headway: Command, five: dict[str, str]) -> None:
    lines = headway("job", "list").stdout.splitlines()
    shown = [next(line for line in lines if job_id in line) for job_id in five.values()]
    assert [lines.index(line) for line in shown] == sorted(map(lines.index, shown), reverse=True)
    for state, line in zip(five, shown, strict=True):
        assert state in line


def test_a_failed_job_shows_the_first_line_of_its_error_and_a_scheduled_one_when_it_runs(
    headway: Command, five: dict[str, str]
) -> None:
    shown = headway("job", "list").stdout
    assert "headway.errors.Fatal: beyond repair" in shown
    assert "second line" not in shown
    assert "runs in 9m" in shown or "runs in 10m" in shown


def test_programs_get_every_field_but_the_payloads(
    headway_json: Callable[..., Any], five: dict[str, str]
) -> None:
    listed = headway_json("job", "list")
    assert [job["id"] for job in listed] == list(reversed(five.values()))
    assert [job["state"] for job in listed] == list(reversed(five))
    failed = listed[3]
    assert failed["task"] == "broken"
    assert failed["queue"] == "mail"
    assert failed["error"]["message"] == "beyond repair\nsecond line"
    assert "input" not in failed


@pytest.mark.parametrize(
    ("words", "states"),
    [
        (["--state", "failed"], ["failed"]),
        (["--state", "failed", "--state", "ready"], ["ready", "failed"]),
        (["--task", "broken"], ["failed"]),
        (["--queue", "mail"], ["failed"]),
        (["--task", "nobody"], []),
        (["--limit", "2"], ["scheduled", "ready"]),
    ],
)
def test_a_list_is_narrowed(
    headway_json: Callable[..., Any], five: dict[str, str], words: list[str], states: list[str]
) -> None:
    assert [job["state"] for job in headway_json("job", "list", *words)] == states


def test_pages_follow_each_other(
    headway: Command, headway_json: Callable[..., Any], five: dict[str, str]
) -> None:
    page = headway_json("job", "list", "--limit", 2)
    last = page[-1]["id"]
    assert f"--before {last}" in headway("job", "list", "--limit", 2).stdout
    rest = headway_json("job", "list", "--before", last)
    assert [job["id"] for job in page + rest] == list(reversed(five.values()))


def test_an_empty_list_is_no_error(headway: Command, headway_json: Callable[..., Any]) -> None:
    assert headway("job", "list").stdout == "no jobs\n"
    assert headway("job", "list", "--task", "send").stdout == "no jobs match\n"
    assert headway_json("job", "list") == []
