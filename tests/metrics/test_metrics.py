"""The metrics of a queue: its live jobs, and how its jobs ended."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headway import Headway, QueueMetrics
from headway.core.clock import Clock
from headway.errors import ConfigError
from headway.store.statements import counts
from tests.sql.hand import Hand
from tests.support import Running, eventually

_STATES = ("ready", "scheduled", "blocked", "running", "waiting")
_ENDS = ("succeeded", "failed", "cancelled", "expired")


def _one_of_each_state(hand: Hand, queue: str = "mail") -> None:
    """Four ready, three scheduled, two blocked, one running."""
    for _ in range(5):
        hand.enqueue(queue=queue)
    for _ in range(3):
        hand.enqueue(queue=queue, delay="1 hour")
    hand.engine_lives()  # else the claim would admit what is blocked
    hand.claim(queue)
    for _ in range(2):
        hand.enqueue(queue=queue, concurrency_key="k")


def _states(row: QueueMetrics | dict[str, Any]) -> tuple[int, ...]:
    return tuple(row[s] if isinstance(row, dict) else getattr(row, s) for s in _STATES)


def _ends(row: QueueMetrics) -> tuple[int, ...]:
    return tuple(getattr(row, end) for end in _ENDS)


async def test_live_jobs_are_counted_by_state(hw: Headway, hand: Hand) -> None:
    _one_of_each_state(hand)
    hand.enqueue(queue="other")
    found = await hw.queues.metrics("mail")
    assert _states(found) == (4, 3, 2, 1, 0)
    assert not found.estimated
    assert [row.name for row in await hw.queues.metrics()] == ["mail", "other"]
    assert _states(hand.row("select * from metrics('mail')")) == (4, 3, 2, 1, 0)
    assert _states(hand.row("select * from queues where queue = 'mail'")) == (4, 3, 2, 1, 0)


async def test_ages_are_those_of_the_oldest_and_newest_ready_job(hw: Headway, hand: Hand) -> None:
    for age in ("3 hours", "2 hours", "1 hour"):
        hand.enqueue(queue="mail", at=hand.value(f"select now() - interval '{age}'"))
    found = await hw.queues.metrics("mail")
    assert found.oldest_ready_age is not None
    assert found.newest_ready_age is not None
    assert found.oldest_ready_age == pytest.approx(3 * 3600, abs=600)
    assert found.newest_ready_age == pytest.approx(3600, abs=600)
    row = hand.row("select * from metrics('mail')")
    assert timedelta(hours=3) <= row["oldest_ready_age"] < timedelta(hours=3, minutes=10)
    assert timedelta(hours=1) <= row["newest_ready_age"] < timedelta(hours=1, minutes=10)
    assert (await hw.queues.metrics("empty")).oldest_ready_age is None


async def test_every_way_to_end_a_job_counts_once(hw: Headway, hand: Hand) -> None:
    def held(**options: Any) -> dict[str, Any]:
        hand.enqueue(queue="mail", **options)
        (claimed,) = hand.claim("mail")
        return claimed

    for _ in range(4):
        hand.settle("complete", held())
    for _ in range(2):
        hand.settle("fail", held(), "why", again=False)
    hand.call("cancel", hand.enqueue(queue="mail"))  # while it waits
    asked = held()
    hand.call("cancel", asked["id"])
    hand.settle("release", asked)  # ends as cancelled
    held(max_attempts=1)
    hand.lose_consumers()
    hand.sweep()  # fails: its last attempt was lost
    hand.enqueue(queue="mail", ttl="1 hour")
    hand.rows("update job set expires_at = now() - interval '1 s'")
    hand.sweep()
    hand.enqueue(queue="mail")
    hand.call("purge", "mail")
    assert _ends(await hw.queues.metrics("mail")) == (4, 3, 3, 1)
    hand.sweep()  # adds up what was tallied
    assert hand.rows("select * from tally") == []
    assert _ends(await hw.queues.metrics("mail")) == (4, 3, 3, 1)


async def test_what_a_worker_settles_is_tallied_once_for_each_batch_and_queue(
    hw: Headway, hand: Hand
) -> None:
    @hw.task(queue="mail")
    async def send(n: int) -> None: ...

    await send.enqueue_many([{"n": n} for n in range(200)])
    await hw.run_until_idle(queues={"mail": 1})
    assert _ends(await hw.queues.metrics("mail")) == (200, 0, 0, 0)
    rows = hand.value("select count(*) from tally") + hand.value("select count(*) from total")
    assert rows < 200


async def test_a_worker_adds_up_what_was_tallied(
    hw: Headway, hand: Hand, start: Callable[..., Running]
) -> None:
    @hw.task(queue="other")
    async def idle() -> None: ...

    for _ in range(3):
        hand.settle("complete", hand.held(queue="mail"))
    hand.rows("insert into tally values ('mail', 'd', 1)")
    start()
    await eventually(lambda: not hand.rows("select * from tally"))
    totals = hand.rows("select queue, outcome::text as outcome, count from total")
    assert totals == [{"queue": "mail", "outcome": "d", "count": 4}]


async def test_adding_up_is_repeated_without_harm_and_forgets_after_90_days(
    hw: Headway, hand: Hand
) -> None:
    day = datetime(2040, 1, 1, tzinfo=UTC)
    client = hw._session.client
    hand.rows("insert into tally values ('mail', 'd', 2), ('mail', 'd', 3), ('old', 'f', 1)")
    assert await client.run(counts.tally(1000, day)) == 3
    assert await client.run(counts.tally(1000, day)) == 0
    hand.rows("insert into tally values ('mail', 'd', 1)")
    await client.run(counts.tally(1000, day + timedelta(days=91)))
    assert [(row.name, row.succeeded) for row in await hw.queues.metrics()] == [("mail", 6)]


async def test_a_queue_without_jobs_has_metrics_but_is_not_listed(hw: Headway, hand: Hand) -> None:
    hand.settle("complete", hand.held(queue="mail"))
    assert [row.name for row in await hw.queues.metrics()] == ["mail"]
    assert await hw.queues.list() == []
    assert _states(await hw.queues.metrics("never")) == (0, 0, 0, 0, 0)


async def test_a_paused_queue_without_jobs_has_metrics(hw: Headway) -> None:
    await hw.queues.pause("mail")
    assert [row.name for row in await hw.queues.metrics()] == ["mail"]


def test_metrics_can_be_asked_for_from_a_thread(dsn: str, schema: str, hand: Hand) -> None:
    hand.enqueue(queue="mail")
    with Headway(dsn, schema=schema) as app:
        assert app.queues.metrics_sync("mail").ready == 1
        assert [row.ready for row in app.queues.metrics_sync()] == [1]
        with pytest.raises(ConfigError, match="queue ''"):
            app.queues.metrics_sync("")


async def test_metrics_are_of_the_moment_that_the_app_is_at(hw: Headway, hand: Hand) -> None:
    hand.enqueue(queue="mail")
    moment = datetime(2040, 1, 1, tzinfo=UTC)
    hw._session.clock = Clock(moment)
    found = await hw.queues.metrics("mail")
    assert found.as_of == moment
    assert (found.oldest_ready_age or 0) > 365 * 86_400
