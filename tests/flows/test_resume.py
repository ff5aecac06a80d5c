"""Fix the world, then go on: at the step that failed, or at one before it."""

import asyncio
from dataclasses import dataclass, field

import pytest

from headway import Context, Headway, Key, Limit, Next, Retry
from headway.errors import InvalidInput, JobCancelled, JobExpired, UnknownTask
from tests.support import DEADLINE, eventually

AT_ONCE = Retry(max_attempts=2, backoff="constant", base=0, jitter=0)


@dataclass
class Trail:
    steps: list[str] = field(default_factory=list)


@pytest.fixture
def order(hw: Headway):
    """Three steps with a state; the last fails for as long as the world is broken."""
    flow = hw.flow("order", state=Trail, retry=AT_ONCE)
    flow.broken = True

    @flow.step
    async def reserve(ctx: Context, n: int) -> Next:
        flow.state(ctx).steps.append(f"reserve {n}")
        return charge.next(amount=n * 10)

    @flow.step(retry=Retry(max_attempts=7), priority=4)
    async def charge(ctx: Context, amount: int) -> Next:
        flow.state(ctx).steps.append(f"charge {amount}")
        return ship.next(parcel=f"parcel {amount}")

    @flow.step
    async def ship(ctx: Context, parcel: str) -> list[str]:
        flow.state(ctx).steps.append(f"ship {parcel}")
        if flow.broken:
            raise ConnectionError("no truck")
        return flow.state(ctx).steps

    return flow


@pytest.fixture
async def failed(hw, order):
    """A job of it that failed at the last step."""
    job = await order.enqueue(1)
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.step, status.attempt) == ("failed", "ship", 2)
    order.broken = False
    return job


async def test_g7_a_failed_flow_resumes_where_it_stands_with_fresh_attempts(hw, failed) -> None:
    assert await failed.retry() is True
    again = await failed.status()
    assert (again.state, again.step, again.attempt, again.max_attempts) == ("ready", "ship", 0, 2)
    assert (again.input, again.error) == ({"parcel": "parcel 10"}, None)
    assert again.carried == {"steps": ["reserve 1", "charge 10"]}
    await hw.run_until_idle()
    assert await failed.result() == ["reserve 1", "charge 10", "ship parcel 10"]
    assert [(row.step, row.claim, row.outcome) for row in await failed.history()] == [
        ("reserve", 1, "moved"),
        ("charge", 2, "moved"),
        ("ship", 3, "retried"),
        ("ship", 4, "failed"),
        ("ship", 5, "done"),
    ]


async def test_a_flow_goes_back_to_an_earlier_step_with_its_input_and_state_of_then(
    hw, failed
) -> None:
    assert await failed.retry(from_step="charge") is True
    again = await failed.status()
    assert (again.state, again.step, again.attempt) == ("ready", "charge", 0)
    assert (again.max_attempts, again.priority) == (7, 4), "as that step says"
    assert (again.input, again.carried) == ({"amount": 10}, {"steps": ["reserve 1"]})
    await hw.run_until_idle()
    assert await failed.result() == ["reserve 1", "charge 10", "ship parcel 10"]


async def test_a_flow_goes_back_to_its_first_step_and_to_the_one_where_it_stands(
    hw, failed, order
) -> None:
    order.broken = True
    assert await failed.retry(from_step="ship")
    await hw.run_until_idle()
    order.broken = False
    assert (await failed.status()).state == "failed"
    assert await asyncio.to_thread(failed.retry_sync, "reserve")
    assert (await failed.status()).carried == {"steps": []}
    await hw.run_until_idle()
    assert await failed.result() == ["reserve 1", "charge 10", "ship parcel 10"]


async def test_a_flow_goes_back_to_the_newest_visit_of_a_step(hw) -> None:
    flow = hw.flow("loop", retry=Retry(max_attempts=1))
    world = {"broken": True}

    @flow.step
    async def turn(n: int) -> Next:
        return turn.next(n + 1) if n < 3 else end.next(n)

    @flow.step
    async def end(n: int) -> int:
        if world["broken"]:
            raise OSError("broken")
        return n

    job = await flow.enqueue(1)
    await hw.run_until_idle()
    world["broken"] = False
    assert await job.retry(from_step="turn")
    assert (await job.status()).input == {"n": 3}
    await hw.run_until_idle()
    assert await job.result() == 3


async def test_there_is_no_going_back_to_where_it_has_never_been(hw, failed, order) -> None:
    assert await failed.retry(from_step="nowhere") is False
    assert (await failed.status()).state == "failed"
    other = await order.enqueue(2)
    assert await other.retry(from_step="reserve") is False, "it waits there"
    await hw.run_until_idle()
    assert await other.retry(from_step="reserve") is False, "it succeeded"
    assert await other.result() == ["reserve 2", "charge 20", "ship parcel 20"]


async def test_the_input_of_a_failed_flow_is_corrected_by_the_signature_of_its_step(
    hw, failed
) -> None:
    for bad in ({"parcel": 5}, {"n": 1}, {}):
        with pytest.raises(InvalidInput, match="order/ship"):
            await failed.edit(bad)
    assert (await failed.status()).input == {"parcel": "parcel 10"}
    assert await failed.edit({"parcel": "another"}) is True
    await failed.retry()
    await hw.run_until_idle()
    assert (await failed.result())[-1] == "ship another"
    assert await failed.edit({"parcel": "late"}) is False


async def test_an_app_that_does_not_know_the_step_cannot_check_its_input(
    dsn: str, schema: str, failed
) -> None:
    async with Headway(dsn, schema=schema) as stranger:
        handle = stranger.job(failed.id)
        with pytest.raises(UnknownTask, match="'ship'"):
            await handle.edit({"parcel": "x"})
        assert await handle.edit({"parcel": "x"}, check=False) is True
    assert (await failed.status()).input == {"parcel": "x"}


async def test_a_flow_is_cancelled_between_its_steps_and_resumes_there(hw) -> None:
    flow = hw.flow("between")

    @flow.step
    async def first() -> Next:
        return second.after("1h", n=3)

    @flow.step
    async def second(n: int) -> int:
        return n

    job = await flow.enqueue()
    await hw.run_until_idle()
    assert await job.cancel() is True
    with pytest.raises(JobCancelled):
        await job.result()
    status = await job.status()
    assert (status.state, status.step, status.input) == ("cancelled", "second", {"n": 3})
    assert await job.retry()
    await hw.run_until_idle()
    assert await job.result() == 3


@pytest.mark.parametrize("transaction", [False, True], ids=["plain", "transaction"])
async def test_a_flow_that_is_cancelled_while_a_step_runs_goes_no_further(
    hw, start, transaction: bool
) -> None:
    flow = hw.flow("running")
    began, ran = asyncio.Event(), []

    @flow.step(transaction=transaction)
    async def first() -> Next:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ran.append("stopped")
        return second.next()  # it would go on all the same

    @flow.step
    async def second() -> None:
        ran.append("second")

    job = await flow.enqueue()
    worker = start()
    await asyncio.wait_for(began.wait(), DEADLINE)
    assert await job.cancel() is True
    with pytest.raises(JobCancelled):
        await job.result(timeout=DEADLINE)
    await worker.stop()
    assert ran == ["stopped"]
    assert (await job.status()).step == "first"


async def test_a_flow_that_waits_too_long_between_its_steps_expires_there(hw, start, db) -> None:
    flow = hw.flow("expiring", ttl="1h")

    @flow.step
    async def first() -> Next:
        return second.after("1d")

    @flow.step
    async def second() -> str:
        return "late"

    job = await flow.enqueue()
    await hw.run_until_idle()
    waiting = await job.status()
    assert (waiting.state, waiting.step) == ("scheduled", "second")
    assert waiting.expires_at is not None, "its time to live is the job's, not the step's"
    db.execute("update job set expires_at = now() - interval '1 s'")
    start()

    async def expired() -> bool:
        return (await job.status()).state == "expired"

    await eventually(expired)
    with pytest.raises(JobExpired):
        await job.result()
    assert await job.retry()
    assert await job.result(timeout=DEADLINE) == "late"


LIMITED = {
    "limit": (
        {"limit": Limit(key=lambda customer: customer, concurrency=1)},
        "charge/charge/acme",
        1,
    ),
    "key": ({"concurrency_key": Key("acme", limit=1)}, "acme", 1),
    "ordered": ({"concurrency_key": Key("acme", ordered=True)}, "acme", 1),
}


@pytest.mark.parametrize("how", LIMITED)
async def test_r6_an_earlier_step_runs_under_its_own_limit_again(hw, start, how: str) -> None:
    """It fails at a step without a key, goes back, and waits for the job that has its room."""
    options, key, limit = LIMITED[how]
    flow = hw.flow("charge", retry=Retry(max_attempts=1))
    world, inside, go_on = {"broken": True}, asyncio.Event(), asyncio.Event()

    @flow.step(**options)
    async def charge(customer: str) -> Next:
        if not world["broken"]:
            inside.set()
            await go_on.wait()
        return ship.next()

    @flow.step
    async def ship() -> str:
        if world["broken"]:
            raise ConnectionError("no truck")
        return "shipped"

    job = await flow.enqueue("acme")
    await hw.run_until_idle()
    assert (await job.status()).keys is None
    world["broken"] = False
    other = await flow.enqueue("acme")
    worker = start()
    await asyncio.wait_for(inside.wait(), DEADLINE)
    assert await job.retry(from_step="charge")
    status = await job.status()
    assert (status.step, status.state) == ("charge", "blocked")
    ordered = {"ordered": True} if how == "ordered" else {}
    assert status.keys == {"concurrency": key, "limit": limit} | ordered
    go_on.set()
    assert await other.result(timeout=DEADLINE) == "shipped"
    assert await job.result(timeout=DEADLINE) == "shipped"
    await worker.stop()


@pytest.mark.parametrize("how", LIMITED)
async def test_r6_an_earlier_step_without_a_key_waits_in_no_line(hw, start, how: str) -> None:
    """It fails at a step with a key, goes back, and runs while somebody else has that key's room."""
    options, _, _ = LIMITED[how]
    flow = hw.flow("charge", retry=Retry(max_attempts=1))
    world, inside, go_on = {"broken": True}, asyncio.Event(), asyncio.Event()
    reserved = asyncio.Event()

    @flow.step
    async def reserve(customer: str) -> Next:
        if inside.is_set():
            reserved.set()
        return charge.next(customer)

    @flow.step(**options)
    async def charge(customer: str) -> str:
        if world["broken"]:
            raise ConnectionError("no bank")
        inside.set()
        await go_on.wait()
        return "charged"

    job = await flow.enqueue("acme")
    await hw.run_until_idle()
    assert (await job.status()).keys is not None
    world["broken"] = False
    other = await flow.enqueue("acme")
    worker = start()
    await asyncio.wait_for(inside.wait(), DEADLINE)
    assert await job.retry(from_step="reserve")
    await asyncio.wait_for(reserved.wait(), DEADLINE)
    assert not go_on.is_set(), "the room was taken all the time"
    go_on.set()
    assert await other.result(timeout=DEADLINE) == "charged"
    assert await job.result(timeout=DEADLINE) == "charged"
    await worker.stop()
