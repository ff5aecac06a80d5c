"""The heartbeat: a worker learns about its lease and its running jobs, from the database alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headway import Headway
from tests.support import Running, eventually


async def test_h5_one_heartbeat_finds_a_cancel_without_notifications(
    hw: Headway, start: Callable[..., Running]
) -> None:
    """This holds for a job that began after the previous heartbeat: a third of the lease, not two."""
    began = asyncio.Event()

    @hw.task
    async def long() -> None:
        began.set()
        await asyncio.Event().wait()

    worker = start(listen=False, lease="1h").worker
    job = await long.enqueue()
    await asyncio.wait_for(began.wait(), 60)
    await job.cancel()
    worker._running.stops._looked_at = 0.0  # a third of the lease has passed
    worker._running.stops.wake()

    async def ended() -> bool:
        return (await job.status()).state == "cancelled"

    await eventually(ended)
