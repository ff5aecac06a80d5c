"""Payloads near the limit, many at once: each statement stays small enough to be sent."""

import pytest

from headway import Headway
from headway.store.connections.engine_connection import EngineConnection

SIZE = 4_000_000
MANY = 16


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many characters each call of the engine sent."""
    sizes: list[int] = []
    run_all = EngineConnection.run_all

    async def measure(self, *statements):
        values = [value for statement in statements for value in statement.params.values()]
        sizes.append(sum(len(value) for value in values if isinstance(value, str | bytes)))
        return await run_all(self, *statements)

    monkeypatch.setattr(EngineConnection, "run_all", measure)
    return sizes


async def test_large_results_that_come_together_are_settled_in_several_statements(
    hw: Headway, sent: list[int]
) -> None:
    """A document of hundreds of megabytes would not be sent in time, nor at any later try."""

    @hw.task
    async def large(n: int) -> str:
        return "x" * SIZE

    jobs = await large.enqueue_many({"n": n} for n in range(MANY))
    await hw.run_until_idle()
    assert max(sent) < 4 * SIZE
    assert {(await job.status()).state for job in jobs} == {"succeeded"}


async def test_large_inputs_that_wait_together_are_all_run(hw: Headway) -> None:
    @hw.task
    async def measure(data: str) -> int:
        return len(data)

    jobs = await measure.enqueue_many({"data": "x" * SIZE} for _ in range(MANY))
    await hw.run_until_idle()
    assert [await job.result() for job in jobs] == [SIZE] * MANY


async def test_large_errors_are_cut_before_they_are_sent(hw: Headway, sent: list[int]) -> None:
    @hw.task
    async def broken(n: int) -> None:
        raise ValueError("x" * SIZE)

    await broken.enqueue_many({"n": n} for n in range(MANY))
    await hw.run_until_idle()
    assert max(sent) < SIZE
