"""B13: what commands say, and that they say it where a slip is likely."""

from __future__ import annotations

from typing import Any

from headway import Headway, Retry
from tests.cli.conftest import Command


def test_b13_a_queue_that_nobody_names_is_noted_and_one_that_is_known_is_not(
    headway: Command, app: Headway
) -> None:
    @app.task(queue="orders")
    async def ship() -> None: ...

    app.run_until_idle_sync()
    paused = headway("queue", "pause", "ordres")
    assert "no job, worker or task uses queue 'ordres' yet; did you mean 'orders'?" in paused.stderr
    assert headway("queue", "pause", "orders").stderr == ""
    assert "did you mean" in headway("queue", "limit", "oders", "--concurrency", 1).stderr


def test_b13_a_limit_of_a_flow_is_refused_with_the_names_of_its_steps(
    headway: Command, app: Headway
) -> None:
    flow = app.flow("checkout")

    @flow.step
    async def charge() -> None: ...

    app.run_until_idle_sync()
    refused = headway("queue", "limit", "--task", "checkout", "--concurrency", 1, code=2)
    assert "--task checkout/charge" in " ".join(refused.stderr.split())
    headway("queue", "limit", "--task", "checkout/charge", "--concurrency", 1)


def test_b13_a_traceback_is_shown_once_and_begins_with_the_users_code(
    headway: Command, app: Headway
) -> None:
    @app.task(retry=Retry(max_attempts=1))
    def broken() -> Any:
        raise ValueError("oops")

    job = broken.enqueue_sync()
    app.run_until_idle_sync()
    shown = headway("job", "show", job.id).stdout
    assert shown.count('raise ValueError("oops")') == 1
    assert "headway/engine" not in shown


def test_b13_the_list_has_a_heading_over_every_column(headway: Command, app: Headway) -> None:
    headway("job", "enqueue", "anything")
    heading = headway("job", "list").stdout.splitlines()[1]
    assert heading.rstrip().endswith("details")
