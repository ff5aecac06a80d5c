"""The fixture `headway_inline`: no database, no worker."""

from __future__ import annotations

import threading

import pytest

from headway import ConfigError, Context, Headway, KeyTaken, Snooze, Unique
from headway.testing import InlineFixture, JobsFailed
from tests.testing import shop


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    shop.done.clear()


def test_jobs_are_kept_and_run_in_the_test(headway_inline: InlineFixture) -> None:
    job = shop.welcome.enqueue_sync(1, "a")
    assert shop.done == []
    assert headway_inline.assert_enqueued(shop.welcome, user_id=1).state == "ready"
    assert headway_inline.run_until_idle_sync().settled == {"succeed": 1}
    assert shop.done == [("welcome", 1, "smtp")]
    assert job.result_sync() == "a"
    assert job.status_sync().state == "succeeded"


async def test_an_async_test_runs_plain_and_async_tasks(headway_inline: InlineFixture) -> None:
    await shop.hw.enqueue_many([shop.remind.using(delay=0).call(1), shop.welcome.call(2, "a")])
    await headway_inline.run_until_idle()
    assert shop.done == [("remind", 1), ("welcome", 2, "smtp")]


def test_a_plain_task_runs_in_the_thread_of_a_sync_test(headway_inline: InlineFixture) -> None:
    app, threads = Headway(), list[threading.Thread]()

    @app.task
    def look() -> None:
        threads.append(threading.current_thread())

    with headway_inline.at_once():
        look.enqueue_sync()
    assert threads == [threading.current_thread()]


def test_delays_retries_snoozes_and_steps_follow_the_clock(headway_inline: InlineFixture) -> None:
    app, naps = Headway(), list[int]()

    @app.task
    async def nap(ctx: Context) -> None:
        naps.append(ctx.attempt)
        if len(naps) == 1:
            raise Snooze("1h")

    for enqueue in (shop.remind, shop.trip):
        enqueue.enqueue_sync(*([1] if enqueue is shop.remind else ["Rome"]))
    nap.enqueue_sync()
    shop.charge.enqueue_sync(5, ok_from=2)
    began_at = headway_inline.now()
    headway_inline.drain_sync()
    assert naps == [1, 1]
    assert shop.done[-1] == ("remind", 1)
    assert ("flight", "Rome") in shop.done
    assert ("charge", 5, 2) in shop.done
    assert (headway_inline.now() - began_at).days == 3


def test_a_failure_fails_the_test_unless_it_is_expected(headway_inline: InlineFixture) -> None:
    shop.charge.enqueue_sync(-1)
    with headway_inline.expect_failure(shop.charge, match="negative"):
        headway_inline.run_until_idle_sync()
    job = shop.charge.enqueue_sync(5)
    with pytest.raises(JobsFailed) as caught:
        headway_inline.drain_sync()
    assert isinstance(caught.value.__cause__, shop.Declined)
    assert job.status_sync().attempt == 3


def test_unique_keys_are_kept(headway_inline: InlineFixture) -> None:
    first = shop.welcome.using(unique="u").enqueue_sync(1, "a")
    again = shop.welcome.using(unique="u").enqueue_sync(1, "a")
    assert (again, again.created) == (first, False)
    with pytest.raises(KeyTaken):
        shop.welcome.using(unique=Unique("u", policy="reject")).enqueue_sync(1, "a")


def test_jobs_of_a_job_exist_if_it_succeeds(headway_inline: InlineFixture) -> None:
    app = Headway()

    @app.task(retry=1)
    async def parent(ctx: Context, works: bool) -> None:
        await ctx.enqueue(shop.welcome, 1, "a")
        if not works:
            raise ValueError

    parent.enqueue_sync(works=False)
    with headway_inline.expect_failure():
        headway_inline.run_until_idle_sync()
    headway_inline.assert_not_enqueued(shop.welcome)
    parent.enqueue_sync(works=True)
    headway_inline.run_until_idle_sync()
    headway_inline.assert_enqueued(shop.welcome)


def test_everything_else_asks_for_a_database(headway_inline: InlineFixture) -> None:
    job = shop.welcome.enqueue_sync(1, "a")
    with pytest.raises(ConfigError, match="fixture headway"):
        shop.hw.queues.pause_sync("default")
    with pytest.raises(ConfigError, match="has not ended"):
        job.result_sync()
