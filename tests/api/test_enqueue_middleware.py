"""Middleware around enqueues."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from headway import ConfigError, Context, Headway, InvalidInput, NewJobInfo


@pytest.fixture
def asked(hw: Headway) -> list[list[NewJobInfo]]:
    """The jobs of each enqueue, in order. Each gets a header."""
    seen: list[list[NewJobInfo]] = []

    @hw.enqueue_middleware
    def carry(jobs: Sequence[NewJobInfo]) -> Iterator[None]:
        seen.append(list(jobs))
        for job in jobs:
            job.headers["trace"] = f"{len(seen)}"
        yield

    return seen


async def test_it_is_around_each_way_to_enqueue_and_may_add_headers(
    hw: Headway, dsn: str, asked: list[list[NewJobInfo]]
) -> None:
    @hw.task
    async def job(n: int) -> None: ...

    @hw.task(transaction=True)
    async def parent(ctx: Context) -> None:
        await ctx.enqueue(job, 10)

    flow = hw.flow("trip")

    @flow.step
    async def pack(n: int) -> None: ...

    await hw.run_until_idle()  # declares the tasks, for the last way
    made: list[Any] = [await job.using(headers={"own": "x"}).enqueue(0)]
    made += [await asyncio.to_thread(job.enqueue_sync, 1)]
    made += await job.enqueue_many([{"n": 2}, {"n": 3}])
    made += await hw.enqueue_many([job.call(4), parent.call()])
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        made.append(await job.using(conn=conn).enqueue(5))
    made.append(await flow.enqueue(6))
    made.append(await hw.jobs.enqueue("job", {"n": 7}))
    assert [[info.job_id for info in one] for one in asked] == [
        [made[0].id], [made[1].id], [made[2].id, made[3].id], [made[4].id, made[5].id],
        [made[6].id], [made[7].id], [made[8].id],
    ]  # fmt: skip
    assert (asked[0][0].task, asked[0][0].queue, asked[0][0].input) == ("job", "default", {"n": 0})
    headers = [(await one.status()).headers for one in made]
    assert headers == [
        {"own": "x", "trace": "1"}, *({"trace": str(n)} for n in (2, 3, 3, 4, 4, 5, 6, 7))
    ]  # fmt: skip
    await hw.run_until_idle()
    (child,) = asked[-1]
    assert (len(asked), child.input) == (8, {"n": 10})
    assert (await hw.job(child.job_id).status()).headers == {"trace": "8"}


async def test_an_error_before_the_yield_reaches_the_caller_and_makes_no_job(hw: Headway) -> None:
    left: list[str] = []

    @hw.enqueue_middleware
    def outer(jobs: Sequence[NewJobInfo]) -> Iterator[None]:
        try:
            yield
        except PermissionError:
            left.append("outer")  # it cannot hide that there is no job

    @hw.enqueue_middleware
    def refuse(jobs: Sequence[NewJobInfo]) -> Iterator[None]:
        if jobs[0].input["n"] == 0:
            raise PermissionError("no")
        jobs[0].headers["a"] = 1  # type: ignore[assignment]
        yield

    @hw.task
    async def job(n: int) -> None: ...

    with pytest.raises(PermissionError):
        await job.enqueue(0)
    with pytest.raises(PermissionError):
        job.enqueue_sync(0)
    assert left == ["outer"] * 2
    with pytest.raises(InvalidInput):
        await job.enqueue(1)
    assert await hw.jobs.count() == 0


async def test_an_error_after_the_yield_is_logged_because_the_job_exists(
    hw: Headway, caplog
) -> None:
    @hw.enqueue_middleware
    def late(jobs: Sequence[NewJobInfo]) -> Iterator[None]:
        yield
        raise PermissionError("late")

    @hw.task
    async def job() -> None: ...

    assert (await (await job.enqueue()).status()).state == "ready"
    (record,) = (r for r in caplog.records if r.name == "headway.enqueue")
    assert record.exc_info is not None
    assert record.exc_info[0] is PermissionError


def test_it_must_be_a_generator_function(hw: Headway) -> None:
    def direct(jobs: Sequence[NewJobInfo]) -> Iterator[None]:
        return iter([None])

    with pytest.raises(ConfigError):
        hw.enqueue_middleware(direct)
