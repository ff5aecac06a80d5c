"""Time travel: everything that waits, waits by the clock of the test."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from headway import Context, Headway, Unique
from headway.testing import HeadwayFixture
from tests.testing import shop

_kept: list[Headway] = []
"""Apps that a test needs to its end."""


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    shop.done.clear()
    _kept.clear()


def test_a_delay_is_over_when_the_time_was_moved(headway: HeadwayFixture) -> None:
    shop.remind.enqueue_sync(1)
    headway.advance("2d")
    headway.run_until_idle_sync()
    assert shop.done == []
    headway.advance("1d")
    headway.run_until_idle_sync()
    assert shop.done == [("remind", 1)]


def test_a_moment_that_the_caller_computed_comes_with_its_delay(headway: HeadwayFixture) -> None:
    """The caller reads the machine's clock, which runs while that of the test stands still."""
    in_three_days = datetime.now(UTC) + timedelta(days=3)
    shop.welcome.using(at=in_three_days).enqueue_sync(1, "a")
    shop.welcome.using(at=datetime.now(UTC)).enqueue_sync(2, "b")
    headway.run_until_idle_sync()
    assert shop.done == [("welcome", 2, "smtp")]
    headway.advance("3d")
    headway.run_until_idle_sync()
    assert shop.done[1:] == [("welcome", 1, "smtp")]


def test_a_retry_waits_for_its_back_off(headway: HeadwayFixture) -> None:
    job = shop.charge.enqueue_sync(5, ok_from=2)
    with headway.expect_failure(shop.charge):
        headway.run_until_idle_sync()
    headway.run_until_idle_sync()
    assert job.status_sync().state == "scheduled"
    headway.advance("1h")
    headway.run_until_idle_sync()
    assert job.status_sync().state == "succeeded"


def test_a_rate_is_kept_by_the_clock_of_the_test(headway: HeadwayFixture) -> None:
    shop.call_api.enqueue_many_sync([{"n": n} for n in range(5)])
    headway.run_until_idle_sync()
    assert len(shop.done) == 1
    headway.advance("30s")
    headway.run_until_idle_sync()
    assert len(shop.done) == 2
    began_at = headway.now()
    headway.drain_sync()
    assert len(shop.done) == 5
    assert headway.now() - began_at == pytest.approx(
        timedelta(seconds=90), abs=timedelta(seconds=1)
    )


def test_a_drain_goes_on_through_the_rate_of_each_key(headway: HeadwayFixture) -> None:
    calls = [{"tenant": tenant, "page": page} for page in range(3) for tenant in ("a", "b")]
    shop.sync_tenant.enqueue_many_sync(calls)
    began_at = headway.now()
    headway.drain_sync()
    assert sorted(map(str, shop.done)) == sorted(str((c["tenant"], c["page"])) for c in calls)
    assert headway.now() - began_at >= timedelta(minutes=2)


def test_a_drain_waits_for_a_pause_with_an_end(headway: HeadwayFixture) -> None:
    shop.hw.queues.pause_sync("default", until="2h")
    shop.welcome.enqueue_sync(1, "a")
    headway.run_until_idle_sync()
    assert shop.done == []
    headway.drain_sync()
    assert len(shop.done) == 1


def test_a_schedule_fires_while_the_time_passes(headway: HeadwayFixture) -> None:
    moments = _reported_at()
    headway.run_for_sync("3d")
    assert [moment.hour for moment in moments] == [8, 8, 8]
    assert moments[2] - moments[0] == timedelta(days=2)


def test_a_schedule_that_was_missed_follows_its_rule(headway: HeadwayFixture) -> None:
    """No worker ran for three days: one run catches up."""
    moments = _reported_at()
    headway.advance("3d")
    headway.run_until_idle_sync()
    assert moments == [headway.now()]


def _reported_at() -> list[datetime]:
    """Return the moments at which a new app's daily report ran. They are added as it runs."""
    app, moments = Headway(), list[datetime]()

    @app.task(schedule="0 8 * * *")
    async def report(ctx: Context) -> None:
        moments.append(ctx.now())

    _kept.append(app)
    return moments


async def test_a_timeout_is_over_when_time_passes_in_the_handler(headway: HeadwayFixture) -> None:
    job = await shop.slow.enqueue()
    running = asyncio.create_task(headway.run_until_idle())
    while not shop.done:
        await asyncio.sleep(0.01)
    assert shop.done == [30.0], "the deadline is by the same clock as now()"
    headway.advance("31s")
    with pytest.raises(AssertionError, match="TimedOut"):
        await running
    assert (await job.status()).error == {"type": "TimedOut", "message": "timed out after 30s"}


def test_time_stands_still_for_a_handler_and_moves_with_the_test(headway: HeadwayFixture) -> None:
    app, seen = Headway(), list[timedelta]()

    @app.task
    def look(ctx: Context) -> None:
        before = ctx.now()
        headway.advance("7d")
        seen.append(ctx.now() - before)

    look.enqueue_sync()
    headway.run_until_idle_sync()
    assert seen == [timedelta(days=7)], "and the worker has not lost its lease"


async def test_a_worker_that_runs_already_follows_the_time(headway: HeadwayFixture) -> None:
    running = asyncio.create_task(shop.hw.run_worker(grace="1s"))
    try:
        first, second = await shop.call_api.enqueue_many([{"n": 1}, {"n": 2}])
        delayed = await shop.remind.enqueue(1)
        await first.result(timeout="30s")
        assert (await second.status()).state == "ready"
        headway.advance("30s")
        await second.result(timeout="30s")
        headway.advance("3d")
        await delayed.result(timeout="30s")
        (worker,) = await shop.hw.workers.list()
        assert worker.alive, "it has kept its lease"
    finally:
        running.cancel()
        await asyncio.wait([running])


def test_a_unique_period_ends(headway: HeadwayFixture) -> None:
    unique = shop.welcome.using(unique=Unique("user-1", period="1d"))
    first = unique.enqueue_sync(1, "a")
    headway.run_until_idle_sync()
    assert not unique.enqueue_sync(1, "a").created
    headway.advance("25h")
    assert unique.enqueue_sync(1, "a") != first


def test_a_job_expires_and_is_deleted(headway: HeadwayFixture) -> None:
    job = shop.welcome.using(ttl="1h", delay="30m").enqueue_sync(1, "a")
    shop.hw.queues.pause_sync("default")
    headway.advance("2h")
    headway.run_until_idle_sync()
    assert job.status_sync().state == "expired"
    headway.advance("400d")
    headway.run_until_idle_sync()
    assert headway.enqueued(shop.welcome) == []


def test_a_job_that_always_makes_another_ends_a_drain(headway: HeadwayFixture) -> None:
    app = Headway()

    @app.task
    def again(ctx: Context) -> None:
        ctx.enqueue_sync(again.using(delay="1h"))

    again.enqueue_sync()
    report = headway.run_for_sync("5h")
    assert report.settled == {"succeed": 6}
