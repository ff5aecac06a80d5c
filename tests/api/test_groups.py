"""Groups from the API through a worker: members end, and the follow-up sees their results."""

from __future__ import annotations

import psycopg
import pytest

from headway import Call, Context, Headway
from headway.errors import ConfigError, InvalidInput, JobCancelled
from tests.support import eventually


@pytest.fixture
def square(hw: Headway):
    @hw.task(retry=1)
    async def square(n: int) -> int:
        if n < 0:
            raise ValueError("negative")
        return n * n

    return square


@pytest.fixture
def total(hw: Headway):
    @hw.task
    async def total(ctx: Context) -> list[int | str]:
        members = await hw.job(ctx.job_id).members()
        return [member.result or str(member.state) for member in members]

    return total


async def test_a_follow_up_gets_the_results_of_its_group_in_order(hw, square, total) -> None:
    job = await hw.group([square.call(n) for n in (3, 1, -1, 2)]).then(total)
    await hw.run_until_idle()
    assert await job.result() == [9, 1, "failed", 4]
    group = await job.group()
    assert (group.size, group.ended, group.living) == (4, 4, 0)
    assert group.states == {"succeeded": 3, "failed": 1}
    assert group.gathered_at is not None


async def test_a_live_worker_runs_the_follow_up_soon_and_once(hw, square, total, start, db) -> None:
    start()
    jobs = [await hw.group([square.call(n) for n in range(20)]).then(total) for _ in range(5)]
    for job in jobs:
        assert len(await job.result(timeout="30s")) == 20
    ended = "select count(*), count(distinct id) from archive where task = 'total'"
    assert db.execute(ended).fetchone() == (5, 5)


async def test_a_group_in_the_caller_s_transaction_commits_or_rolls_back_with_it(
    hw, square, total, dsn
) -> None:
    calls = [square.call(1), square.call(2)]
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        await hw.group(calls, conn=conn).then(total)
        await conn.rollback()
        assert await hw.jobs.count() == 0
        job = await hw.group(calls, conn=conn).then(total)
        await conn.commit()
    assert (await job.status()).state == "waiting"
    await hw.run_until_idle()
    assert await job.result() == [1, 4]


def test_without_an_event_loop(hw, square, total) -> None:
    job = hw.group([square.call(2)]).then_sync(total)
    hw.run_until_idle_sync()
    assert job.result_sync() == [4]
    assert [member.id for member in job.members_sync()] == [
        member.id for member in hw.job(job.id).members_sync()
    ]


async def test_a_follow_up_with_arguments_that_runs_early(hw, square, start) -> None:
    @hw.task
    async def first(name: str) -> str:
        return name

    calls: list[Call[int]] = [square.call(1), square.using(delay="1h").call(2)]
    job = await hw.group(calls).then(first.call("early"), all_but=1)
    await hw.run_until_idle()
    assert await job.result() == "early"


async def test_a_flow_may_follow_a_group(hw, square) -> None:
    flow = hw.flow("after")

    @flow.step
    async def begin():
        return "done"

    job = await hw.group([square.call(1)]).then(flow)
    await hw.run_until_idle()
    assert await job.result() == "done"


async def test_cancelling_the_follow_up_leaves_the_members_and_the_other_way_round(
    hw, square, total
) -> None:
    job = await hw.group([square.call(1)]).then(total)
    assert await job.cancel()
    await hw.run_until_idle()
    with pytest.raises(JobCancelled):
        await job.result()
    assert (await job.members())[0].result == 1
    job = await hw.group([square.call(1), square.call(2)]).then(total)
    assert await job.cancel_members() == 2
    await hw.run_until_idle()
    assert await job.result() == ["cancelled", "cancelled"]
    assert await job.cancel_members() == 0


async def test_a_member_names_its_follow_up(hw, square, total) -> None:
    job = await hw.group([square.using(headers={"a": "b"}).call(1)]).then(total)
    (member,) = await job.members()
    assert (await hw.job(member.id).status()).headers == {"a": "b", "member-of": str(job.id)}
    assert await hw.job(member.id).group() is None
    assert await hw.job(member.id).members() == []


async def test_a_group_that_cannot_be_is_refused(hw, square, total, db) -> None:
    @hw.task(unique=lambda: "one")
    async def only() -> None: ...

    group = hw.group([square.call(1)])
    with pytest.raises(ConfigError, match="unique"):
        await group.then(only)
    with pytest.raises(ConfigError, match="all_but"):
        await group.then(total, all_but=-1)
    with pytest.raises(InvalidInput, match="another app"):
        await Headway("postgresql://").group([square.call(1)]).then(total)
    with pytest.raises(InvalidInput, match="cannot follow"):
        await group.then(lambda: None)
    with pytest.raises(InvalidInput, match="too large"):
        hw.group([square.call(1)] * 10_001)
    assert db.execute("select count(*) from job").fetchone() == (0,)


async def test_a_leader_that_hears_nothing_finds_the_group(hw, square, total, start, db) -> None:
    """The net: no member's end notifies anybody."""
    job = await hw.group([square.call(1)]).then(total)
    db.execute("delete from awaited")
    start(poll="0.2s")
    await eventually(lambda: db.execute("select 1 from archive where task = 'total'").fetchone())
    assert await job.result() == [1]
