"""`job show` and `job list` about flows, keys and links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from headway import Context, Failure, Fatal, Headway, Job, Key, Retry
from tests.cli.conftest import Command


@dataclass
class Cart:
    pages: int = 0


@pytest.fixture
def order(app: Headway) -> Job[Any]:
    """A flow that went on after one failed attempt, went back to itself, and failed at its end."""
    flow = app.flow("order", state=Cart, concurrency_key=Key("customer-1", ordered=True))

    @flow.step(retry=Retry(base=0))
    async def generate(ctx: Context, order_id: int) -> Any:
        flow.state(ctx).pages += 1
        if flow.state(ctx).pages == 1 and ctx.attempt == 1:
            raise OSError("disk full")
        if flow.state(ctx).pages < 2:
            return generate.next(order_id=order_id)
        return email.next(key=f"receipt-{order_id}")

    @flow.step
    async def email(key: str) -> None:
        raise Fatal("no such mailbox")

    job = flow.using(unique="order-7").enqueue_sync(order_id=7)
    app.run_until_idle_sync()
    return job


def test_a_flow_shows_its_steps_in_order_with_what_became_of_each(
    headway: Command, headway_json: Callable[..., Any], order: Job[Any]
) -> None:
    shown = headway("job", "show", order.id).stdout
    rows = [line.split() for line in shown.splitlines()]
    steps = [row for row in rows if row[:1] in (["generate"], ["email"])]
    assert [row[:3] for row in steps] == [
        ["generate", "1", "retried"],
        ["generate", "2", "moved"],
        ["generate", "1", "moved"],
        ["email", "1", "failed"],
    ]
    assert [row[-1] for row in steps[1:3]] == ["generate", "email"]
    assert "attempt 1 of step generate failed" in shown
    assert "attempt 1 of step email failed" in shown
    told = headway_json("job", "show", order.id)
    assert [(a["step"], a["outcome"], a["next_step"]) for a in told["history"]] == [
        ("generate", "retried", None),
        ("generate", "moved", "generate"),
        ("generate", "moved", "email"),
        ("email", "failed", None),
    ]
    assert [a["step"] for a in told["attempts"]] == ["generate", "email"]


def test_a_flow_shows_where_it_stands_its_keys_and_what_it_carries(
    headway: Command, headway_json: Callable[..., Any], order: Job[Any]
) -> None:
    facts = {tuple(line.split()) for line in headway("job", "show", order.id).stdout.splitlines()}
    assert ("step", "email") in facts
    assert ("key", "customer-1:", "1", "at", "a", "time,", "in", "order") in facts
    assert ("key", "order-7:", "unique", "until", "the", "job", "ends") in facts
    assert ("flow", "state", '{"pages":2}') in facts
    told = headway_json("job", "show", order.id)
    assert told["carried"] == {"pages": 2}
    assert told["keys"]["unique"] == "order-7"


def test_jobs_are_listed_by_their_step_and_blocked_ones_too(
    headway: Command, headway_json: Callable[..., Any], order: Job[Any], app: Headway
) -> None:
    blocked = app.get_task("order").enqueue_sync(order_id=8)
    assert [job["id"] for job in headway_json("job", "list", "--step", "email")] == [str(order.id)]
    listed = headway_json("job", "list", "--state", "blocked")
    assert [(job["id"], job["step"]) for job in listed] == [(str(blocked.id), "generate")]
    assert "keys" not in listed[0]
    (line,) = (ln for ln in headway("job", "list").stdout.splitlines() if str(blocked.id) in ln)
    assert line.split()[1:5] == ["order", "generate", "default", "blocked"]


def test_a_job_and_what_was_made_of_its_failure_name_each_other(
    headway: Command, headway_json: Callable[..., Any], app: Headway
) -> None:
    @app.task
    async def alert(failure: Failure) -> str:
        return failure.task

    @app.task(dead_letter="graves", on_failure=alert)
    async def mail() -> None:
        raise Fatal("no")

    job = mail.enqueue_sync()
    app.run_until_idle_sync(queues={"default": 1})
    told = headway_json("job", "show", job.id)
    made = {made["task"]: made for made in told["successors"]}
    assert (made["mail"]["queue"], made["mail"]["state"]) == ("graves", "ready")
    assert (made["alert"]["queue"], made["alert"]["state"]) == ("default", "succeeded")
    shown = [line.split() for line in headway("job", "show", job.id).stdout.splitlines()]
    assert f"led to job {made['mail']['id']}: mail in queue graves, ready".split() in shown
    dead = headway("job", "show", made["mail"]["id"]).stdout
    assert any(
        line.split() == ["dead", "letter", "of", "job", str(job.id)] for line in dead.splitlines()
    )
    called = headway("job", "show", made["alert"]["id"]).stdout
    assert any(
        line.split() == ["failure", "handler", "of", "job", str(job.id)]
        for line in called.splitlines()
    )
