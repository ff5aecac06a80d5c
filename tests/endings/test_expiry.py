"""A time to live that is over never removes a job silently."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from headway import Failure, Headway
from headway.errors import JobExpired
from tests.endings.conftest import Db
from tests.support import Running


async def test_whatever_waits_too_long_is_in_the_archive_as_expired(
    hw: Headway, start: Callable[..., Running], db: Db
) -> None:
    @hw.task
    async def alert(failure: Failure) -> None: ...

    @hw.task(queue="paused", ttl="1m", on_failure=alert, dead_letter="graves")
    async def task(name: str) -> None: ...

    await hw.queues.pause("paused")
    keyed = task.using(concurrency_key="k")
    jobs = {
        "ready": await task.enqueue("ready"),
        "scheduled": await task.using(delay="10m").enqueue("scheduled"),
        "first of its key": await keyed.enqueue("first"),
        "blocked": await keyed.enqueue("blocked"),
    }
    states = {name: (await job.status()).state for name, job in jobs.items()}
    assert states == {
        "ready": "ready",
        "scheduled": "scheduled",
        "first of its key": "blocked",
        "blocked": "blocked",
    }
    behind = await task.using(concurrency_key="k", queue="default", ttl="1d").enqueue("behind")
    hw._session.clock.advance(timedelta(minutes=5))
    start()
    for job in jobs.values():
        with pytest.raises(JobExpired):
            await job.result(timeout="60s")
        assert (await job.status()).input["name"] in ("ready", "scheduled", "first", "blocked")
    await behind.result(timeout="60s")  # the room of those that expired is free again
    left = db.execute("select count(*) from jobs").fetchone()
    assert left == (5,), "an expiry is not a failure: nobody was called, nothing was buried"
