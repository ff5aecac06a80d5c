"""B18: how far a job said it was is kept when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headway import Context, Fatal, Headway
from tests.support import Running, eventually

_SAID = {"percent": 36.0, "message": "row 36 of 100"}


@pytest.mark.parametrize("end", ["cancelled", "failed", "succeeded"])
async def test_b18_progress_survives_the_end_of_its_job(
    hw: Headway, start: Callable[..., Running], end: str
) -> None:
    go_on = asyncio.Event()

    @hw.task
    async def export(ctx: Context) -> None:
        await ctx.progress(36, "row 36 of 100")
        await go_on.wait()
        if end == "failed":
            raise Fatal("no")

    start()
    job = await export.enqueue()

    async def progress() -> Any:
        return (await job.status()).progress

    assert await eventually(progress) == _SAID
    await job.cancel() if end == "cancelled" else go_on.set()

    async def ended() -> bool:
        return (await job.status()).state == end

    await eventually(ended)
    assert await progress() == _SAID
    if end != "succeeded":
        assert await job.retry()
        assert await progress() in (None, _SAID), "another attempt reports its own progress"
