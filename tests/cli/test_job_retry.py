"""`job retry` of all that failed in one way, and from an earlier step."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from headway import Fatal, Headway, Job
from headway.cli.failure_groups import grouped
from headway.core.info import FailedJob
from tests.cli.conftest import Command

Failed = dict[str, list[Job[Any]]]


@pytest.fixture
def failed(app: Headway) -> Failed:
    """Three that had no route, one that had no address, one of another task; by what failed them."""

    @app.task
    async def mail(why: str) -> None:
        raise Fatal(why)

    @app.task
    async def report() -> None:
        raise KeyError("month")

    made = {
        "route": [mail.enqueue_sync("no route to host") for _ in range(3)],
        "address": [mail.enqueue_sync("no address")],
        "month": [report.enqueue_sync()],
    }
    for jobs in made.values():
        for job in jobs:
            assert _state(job) == "ready"
    app.run_until_idle_sync()
    # KeyError is tried again by default: it has failed for good once its attempts are used up.
    while _state(made["month"][0]) != "failed":
        made["month"][0].retry_sync()
        app.run_until_idle_sync()
    return made


def _state(job: Job[Any]) -> str:
    return job.status_sync().state


def _states(failed: Failed) -> dict[str, set[str]]:
    return {why: {_state(job) for job in jobs} for why, jobs in failed.items()}


def test_those_whose_error_matches_are_retried_after_a_preview(
    headway: Command, failed: Failed
) -> None:
    shown = headway("job", "retry", "--error", "NO ROUTE", "--since", "1h", "--yes").stdout
    assert "headway.errors.Fatal: no route to host" in shown
    assert any(str(job.id) in shown for job in failed["route"])
    assert "no address" not in shown
    assert _states(failed) == {"route": {"ready"}, "address": {"failed"}, "month": {"failed"}}


def test_with_nobody_to_ask_it_shows_what_it_would_do_and_refuses(
    headway: Command, headway_json: Callable[..., Any], failed: Failed
) -> None:
    headway("job", "retry", "--task", "mail", code=2)
    told = headway_json("job", "retry", "--task", "mail", code=2)
    assert (told["matching"], told["retried"]) == (4, 0)
    assert [group["count"] for group in told["groups"]] == [3, 1]
    assert _states(failed) == {"route": {"failed"}, "address": {"failed"}, "month": {"failed"}}


def test_programs_are_told_how_many_of_what_were_retried(
    headway_json: Callable[..., Any], failed: Failed
) -> None:
    told = headway_json("job", "retry", "--task", "mail", "--limit", 3, "--yes")
    assert (told["matching"], told["retried"], told["skipped"]) == (3, 3, 0)
    (route,) = told["groups"]
    assert route["task"] == "mail"
    assert route["error"] == "headway.errors.Fatal: no route to host"
    assert set(route["ids"]) == {str(job.id) for job in failed["route"]}
    assert headway_json("job", "retry", "--task", "mail", "--yes")["retried"] == 1
    nothing = headway_json("job", "retry", "--task", "mail", "--yes")
    assert (nothing["matching"], nothing["groups"]) == (0, [])


def test_a_job_that_is_gone_when_its_turn_comes_is_skipped(
    headway_json: Callable[..., Any],
    failed: Failed,
    db: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Someone else retries two of them between the preview and the answer."""
    import headway.cli.job.retry as command

    def meanwhile(rows: list[FailedJob]) -> Any:
        for job in failed["route"][:2]:
            assert job.retry_sync()
        return grouped(rows)

    monkeypatch.setattr(command, "grouped", meanwhile)
    told = headway_json("job", "retry", "--task", "mail", "--yes")
    assert (told["retried"], told["skipped"]) == (2, 2)
    assert db.execute("select count(*) from job").fetchone() == (4,)


@pytest.mark.usefixtures("at_terminal")
def test_at_a_terminal_it_asks_and_does_as_it_is_told(headway: Command, failed: Failed) -> None:
    headway("job", "retry", "--task", "mail", stdin="n\n", code=1)
    assert _states(failed)["route"] == {"failed"}
    headway("job", "retry", "--task", "mail", stdin="y\n")
    assert _states(failed) == {"route": {"ready"}, "address": {"ready"}, "month": {"failed"}}


def test_what_cannot_be_meant_is_exit_code_2(headway: Command) -> None:
    for words in (
        ["--error", "no (route"],
        ["--from-step", "one"],
        ["0199a5f0-0000-7000-8000-000000000000", "--task", "mail"],
    ):
        headway("job", "retry", *words, code=2)


@pytest.fixture
def order(app: Headway) -> Job[Any]:
    """A flow that failed at its second step."""
    flow = app.flow("order")

    @flow.step
    async def generate(order_id: int) -> Any:
        return email.next(key=f"receipt-{order_id}")

    @flow.step
    async def email(key: str) -> None:
        raise Fatal("no such mailbox")

    job = flow.enqueue_sync(order_id=7)
    app.run_until_idle_sync()
    return job


def test_a_flow_resumes_where_it_failed(headway: Command, order: Job[Any]) -> None:
    headway("job", "retry", order.id)
    status = order.status_sync()
    assert (status.state, status.step, status.input) == ("ready", "email", {"key": "receipt-7"})


def test_a_flow_goes_back_to_an_earlier_step_with_the_input_it_had(
    headway: Command, order: Job[Any]
) -> None:
    headway("job", "retry", order.id, "--from-step", "pack", code=1)
    headway("job", "retry", order.id, "--from-step", "generate")
    status = order.status_sync()
    assert (status.step, status.input, status.state) == ("generate", {"order_id": 7}, "ready")


def test_those_that_failed_at_one_step_are_retried(
    headway_json: Callable[..., Any], order: Job[Any]
) -> None:
    words = ("job", "retry", "--task", "order", "--yes")
    assert headway_json(*words, "--step", "generate")["matching"] == 0
    told = headway_json(*words, "--step", "email", "--from-step", "generate")
    assert told["retried"] == 1
    assert order.status_sync().step == "generate"


def test_jobs_are_put_together_by_task_step_and_the_first_line_of_their_error() -> None:
    def row(number: int, message: str) -> FailedJob:
        moment = datetime.fromisoformat(f"2040-01-01T00:00:0{number}+00:00")
        return FailedJob(UUID(int=number), "mail", "", moment, "OSError", message)

    many = grouped([row(n, f"no route\nat {n}") for n in range(5)] + [row(5, "else")])
    assert [(group.error, group.count, group.ids) for group in many] == [
        ("OSError: no route", 5, [str(UUID(int=n)) for n in range(3)]),
        ("OSError: else", 1, [str(UUID(int=5))]),
    ]
    assert (many[0].oldest.second, many[0].newest.second) == (0, 4)
