"""Parts of a turn that run in parallel: a turn ends when all of them have ended, however they end."""

from __future__ import annotations

import asyncio

import pytest

from headway.engine.service import Service


class _Idle(Service):
    async def turn(self) -> float | None:
        return None


async def test_a_part_that_fails_does_not_end_the_turn_of_the_others() -> None:
    """Verdicts that are under way in the next turn would look like orphans there."""
    failed, go, ended = asyncio.Event(), asyncio.Event(), list[str]()

    async def claims() -> None:
        failed.set()
        raise ValueError("refused")

    async def settles() -> None:
        await go.wait()
        ended.append("settled")

    turn = asyncio.create_task(_Idle().in_parallel(claims(), settles()))
    await failed.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not turn.done()
    go.set()
    with pytest.raises(ValueError, match="refused"):
        await turn
    assert ended == ["settled"]


async def test_a_cancelled_turn_cancels_its_parts_and_waits_for_their_end() -> None:
    began, ended = asyncio.Event(), list[str]()

    async def part(name: str) -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    turn = asyncio.create_task(_Idle().in_parallel(part("claims"), part("settles")))
    await began.wait()
    await asyncio.sleep(0)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert sorted(ended) == ["claims", "settles"]
