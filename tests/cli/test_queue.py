from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway import Headway
from tests.cli.conftest import Command


def test_queues_are_listed_with_what_waits_in_them(
    headway: Command, headway_json: Callable[..., Any], app: Headway
) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    send.enqueue_many_sync([{}, {}])
    send.using(delay="1h").enqueue_sync()
    (line,) = [line for line in headway("queue", "list").stdout.splitlines() if "mail" in line]
    assert line.split()[:4] == ["mail", "2", "1", "0"]
    (row,) = headway_json("queue", "list")
    assert (row["name"], row["ready"], row["scheduled"]) == ("mail", 2, 1)
    assert row["oldest_ready_age"] >= 0
    assert row["paused_at"] is None


def test_no_queues_is_no_error(headway_json: Callable[..., Any]) -> None:
    assert headway_json("queue", "list") == []


def test_a_pause_holds_jobs_back_until_it_is_lifted(headway: Command, app: Headway) -> None:
    @app.task(queue="mail")
    async def send() -> str:
        return "sent"

    headway("queue", "pause", "mail")
    job = send.enqueue_sync()
    app.run_until_idle_sync()
    assert job.status_sync().state == "ready"
    headway("queue", "resume", "mail")
    app.run_until_idle_sync()
    assert job.result_sync(timeout="60s") == "sent"


def test_a_pause_shows_its_actor_and_reason(
    headway: Command, headway_json: Callable[..., Any]
) -> None:
    answer = headway_json("queue", "pause", "mail", "--reason", "provider [down]")
    assert answer["paused"] is True
    (row,) = headway_json("queue", "list")
    assert row["paused_by"] == answer["actor"]
    assert "@" in row["paused_by"]
    assert row["pause_reason"] == "provider [down]"
    assert f"by {answer['actor']}: provider [down]" in headway("queue", "list").stdout


def test_what_is_not_paused_is_not_resumed(headway_json: Callable[..., Any]) -> None:
    answer = headway_json("queue", "resume", "mail", code=1)
    assert answer == {"queue": "mail", "paused": False, "resumed": False}


def test_a_queue_without_a_name_is_a_usage_error(headway: Command) -> None:
    assert "queue ''" in headway("queue", "pause", "", code=2).stderr
