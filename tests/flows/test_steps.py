"""A flow is a state machine: one job that goes from step to step."""

from datetime import UTC, datetime, timedelta

import pytest

from headway import Context, Headway, Next, Retry
from headway.errors import InvalidInput, JobFailed, UnknownTask

AT_ONCE = Retry(max_attempts=3, backoff="constant", base=0, jitter=0)


@pytest.fixture
def receipts(hw: Headway):
    """The flow of the public contract, as it is written there."""
    receipts = hw.flow("order-receipt", queue="orders")

    @receipts.step
    async def generate(order_id: int):
        key = f"receipts/{order_id}.pdf"
        return email.next(receipt_key=key)

    @receipts.step(retry=Retry(max_attempts=20), timeout="1m", priority=3)
    async def email(receipt_key: str):
        return {"sent": receipt_key}

    return receipts


async def test_a_flow_starts_at_the_first_step_declared_and_ends_with_a_result(
    hw, receipts
) -> None:
    job = await receipts.enqueue(order_id=42)
    waiting = await job.status()
    assert (waiting.task, waiting.step, waiting.queue) == ("order-receipt", "generate", "orders")
    await hw.run_until_idle()
    assert await job.result() == {"sent": "receipts/42.pdf"}
    ended = await job.status()
    assert (ended.id, ended.step, ended.priority, ended.max_attempts) == (job.id, "email", 3, 20)


async def test_a_flow_is_enqueued_in_every_way_in_which_a_task_is(hw, receipts) -> None:
    jobs = [
        await receipts.enqueue(0),
        await hw.enqueue("order-receipt", order_id=1),
        *await receipts.enqueue_many([{"order_id": 2}, receipts.using(priority=9).call(3)]),
        await hw.get_task("order-receipt").using(headers={"a": "b"}).enqueue(4),
    ]
    await hw.run_until_idle()
    assert [(await job.result())["sent"] for job in jobs] == [f"receipts/{n}.pdf" for n in range(5)]
    assert (await jobs[-1].status()).headers == {"a": "b"}


def test_a_flow_is_enqueued_and_awaited_by_sync_code(dsn: str, schema: str) -> None:
    with Headway(dsn, schema=schema) as hw:
        flow = hw.flow("sync")

        @flow.step
        def first(n: int) -> Next:
            return second.next(n + 1)

        @flow.step
        def second(n: int) -> int:
            return n + 1

        jobs = [
            flow.enqueue_sync(1),
            second.enqueue_sync(n=10),
            *flow.enqueue_many_sync([{"n": 20}, second.call(30)]),
        ]
        hw.run_until_idle_sync()
        assert [job.result_sync() for job in jobs] == [3, 11, 22, 31]
        assert [row.step for row in jobs[0].history_sync()] == ["first", "second"]


async def test_a_bad_call_of_a_flow_fails_before_the_database(hw, receipts, db) -> None:
    for bad in ({"order_id": "x"}, {}, {"order_id": 1, "more": 2}):
        with pytest.raises(InvalidInput, match="order-receipt/generate"):
            await receipts.enqueue(**bad)
    with pytest.raises(InvalidInput, match="item 1"):
        await receipts.enqueue_many([{"order_id": 1}, {"order_id": None}])
    with pytest.raises(UnknownTask):
        await hw.enqueue("order-receipt/email", receipt_key="a")
    assert db.execute("select count(*) from job").fetchone() == (0,)


async def test_any_step_goes_to_any_step_also_back_and_to_itself(hw) -> None:
    flow = hw.flow("walk")
    path: list[str] = []

    @flow.step
    async def start(turns: int) -> Next:
        path.append(f"start {turns}")
        return middle.next(turns) if turns % 2 else last.next(turns, note="even")

    @flow.step
    def middle(turns: int, seen: int = 0) -> Next:
        path.append(f"middle {turns} {seen}")
        return middle.next(turns, seen=seen + 1) if seen < 2 else start.next(turns - 1)

    @flow.step
    async def last(turns: int, note: str) -> Next | list[str]:
        path.append(f"last {turns} {note}")
        return start.next(turns=turns - 1) if turns else path

    job = await flow.enqueue(3)
    await hw.run_until_idle()
    assert await job.result() == [
        *("start 3", "middle 3 0", "middle 3 1", "middle 3 2", "start 2", "last 2 even", "start 1"),
        *("middle 1 0", "middle 1 1", "middle 1 2", "start 0", "last 0 even"),
    ]
    assert [row.next_step for row in await job.history()] == [
        *("middle", "middle", "middle", "start", "last", "start"),
        *("middle", "middle", "middle", "start", "last", None),
    ]


async def test_a_job_may_start_at_any_step_and_end_at_any_step(hw) -> None:
    flow = hw.flow("gate")

    @flow.step
    async def check(amount: int) -> Next | str:
        return approve.next(amount) if amount > 10 else "small"

    @flow.step
    async def approve(amount: int) -> str:
        return f"approved {amount}"

    jobs = [await check.enqueue(5), await flow.enqueue(50), await approve.enqueue(amount=7)]
    await hw.run_until_idle()
    assert [await job.result() for job in jobs] == ["small", "approved 50", "approved 7"]
    assert [len(await job.history()) for job in jobs] == [1, 2, 1]
    assert await approve(1) == "approved 1", "calling a step calls its function"


async def test_attempts_start_anew_at_each_step_and_the_job_is_one_from_first_to_last(hw) -> None:
    flow = hw.flow("attempts", retry=AT_ONCE)
    seen: list[tuple] = []

    @flow.step
    async def first(ctx: Context) -> Next:
        seen.append((ctx.job_id, ctx.task, ctx.step, ctx.attempt, ctx.max_attempts))
        if ctx.attempt < 3:
            raise OSError("not yet")
        return second.next()

    @flow.step(retry=Retry(max_attempts=2, backoff="constant", base=0, jitter=0))
    def second(ctx: Context) -> str:
        seen.append((ctx.job_id, ctx.task, ctx.step, ctx.attempt, ctx.max_attempts))
        if ctx.attempt < 2:
            raise OSError("not yet")
        return "done"

    job = await flow.enqueue()
    await hw.run_until_idle()
    assert await job.result() == "done"
    assert seen == [
        *[(job.id, "attempts", "first", attempt, 3) for attempt in (1, 2, 3)],
        *[(job.id, "attempts", "second", attempt, 2) for attempt in (1, 2)],
    ]


async def test_the_history_tells_each_step_with_its_attempts_durations_and_input(hw) -> None:
    flow = hw.flow("history", retry=AT_ONCE)

    @flow.step
    async def one(n: int) -> Next:
        return two.next(text=str(n))

    @flow.step
    async def two(ctx: Context, text: str) -> str:
        if ctx.attempt == 1:
            raise ValueError("once")
        return text

    before = datetime.now(UTC) - timedelta(minutes=1)
    job = await flow.enqueue(5)
    await hw.run_until_idle()
    rows = await job.history()
    assert [(row.step, row.attempt, row.claim, row.outcome, row.next_step) for row in rows] == [
        ("one", 1, 1, "moved", "two"),
        ("two", 1, 2, "retried", None),
        ("two", 2, 3, "done", None),
    ]
    assert [rows[0].input, rows[2].input] == [{"n": 5}, {"text": "5"}]
    assert [row.error and row.error["message"] for row in rows] == [None, "once", None]
    for row in rows:
        assert row.worker is not None
        assert row.started_at is not None
        assert before < row.started_at <= row.finished_at
    assert [row.error["message"] for row in await job.attempts()] == ["once"]
    (_, failed, _) = rows
    assert "ValueError" in failed.error["traceback"]


async def test_a_plain_task_has_no_history_but_its_failures(hw) -> None:
    @hw.task
    async def plain() -> int:
        return 1

    job = await plain.enqueue()
    await hw.run_until_idle()
    assert await job.result() == 1
    assert await job.history() == []


async def test_after_moves_now_and_runs_later(hw) -> None:
    flow = hw.flow("later")

    @flow.step
    async def ask(n: int) -> Next:
        return remind.after("1h", n=n)

    @flow.step
    async def remind(n: int) -> int:
        return n

    job = await flow.enqueue(3)
    started = datetime.now(UTC)
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.step, status.input) == ("scheduled", "remind", {"n": 3})
    assert timedelta(minutes=50) < status.run_at - started < timedelta(minutes=70)
    assert await job.retry(), "a scheduled job runs now if someone asks"
    await hw.run_until_idle()
    assert await job.result() == 3


async def test_a_move_that_is_due_at_once_is_ready_at_once(hw) -> None:
    flow = hw.flow("now")

    @flow.step
    async def first() -> Next:
        return second.after(0)

    @flow.step
    async def second() -> Next:
        return third.after(timedelta(0))

    @flow.step(delay="1h")
    async def third() -> str:
        return "third"

    job = await flow.enqueue()
    await hw.run_until_idle()
    assert await job.result() == "third", "after() goes before the step's own delay"


async def test_a_result_is_read_back_as_plain_json_whichever_step_ended_the_flow(hw) -> None:
    flow = hw.flow("result")

    @flow.step
    async def only(n: int) -> tuple[int, datetime]:
        return n, datetime(2030, 1, 2, tzinfo=UTC)

    job = await flow.enqueue(1)
    await hw.run_until_idle()
    assert await job.result() == [1, "2030-01-02T00:00:00Z"]


async def test_a_step_that_fails_for_good_fails_the_flow_there(hw) -> None:
    flow = hw.flow("failing")

    @flow.step
    async def first() -> Next:
        return second.next(n=7)

    @flow.step(retry=AT_ONCE)
    async def second(n: int) -> None:
        raise ConnectionError("down")

    job = await flow.enqueue()
    await hw.run_until_idle()
    with pytest.raises(JobFailed, match="down"):
        await job.result()
    status = await job.status()
    assert (status.state, status.step, status.attempt, status.input) == (
        *("failed", "second", 3),
        {"n": 7},
    )
    assert [row.outcome for row in await job.history()] == ["moved", "retried", "retried", "failed"]
