"""A move that cannot be made fails the step that asked for it, at once, and writes nothing else."""

import pytest

from headway import Context, Headway, Next, Retry
from headway.errors import ConfigError

AT_ONCE = Retry(max_attempts=3, backoff="constant", base=0, jitter=0)


@pytest.mark.parametrize("transaction", [False, True], ids=["plain", "transaction"])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (5, "flow/second: Expected `str`, got `int`"),
        ("a\0b", "NUL character"),
        ("x" * 3_000, "flow/second is 3,012 bytes of JSON, more than the limit of 2,000"),
        (object(), "object cannot be stored as JSON"),
        ("\ud800", "cannot be stored as JSON"),
    ],
    ids=["wrong type", "nul", "too large", "not json", "half a character"],
)
async def test_an_input_that_cannot_be_stored_fails_the_step_with_that_error(
    dsn: str, schema: str, db, value, words: str, transaction: bool
) -> None:
    async with Headway(dsn, schema=schema, max_payload_bytes=2_000) as hw:
        flow = hw.flow("flow", retry=AT_ONCE)

        @hw.task
        async def other() -> None: ...

        @flow.step(transaction=transaction)
        async def first(ctx: Context) -> Next:
            await ctx.enqueue(other)
            return second.next(value=value)

        @flow.step
        async def second(value: str) -> None: ...

        job = await flow.enqueue()
        await hw.run_until_idle()
        status = await job.status()
        assert (status.state, status.step, status.attempt) == ("failed", "first", 1)
        assert status.input == {}
        assert status.error["type"] == "InvalidInput"
        assert words in status.error["message"]
        assert [row.outcome for row in await job.history()] == ["failed"]
        assert db.execute("select task from jobs").fetchall() == [("flow",)]


async def test_a_good_flow_next_to_a_bad_one_goes_on(hw) -> None:
    flow = hw.flow("flow")

    @flow.step
    async def first(n: int) -> Next:
        return second.next("\0" if n == 3 else str(n))

    @flow.step
    async def second(text: str) -> str:
        return text

    jobs = await flow.enqueue_many([{"n": n} for n in range(6)])
    await hw.run_until_idle()
    states = [(await job.status()).state for job in jobs]
    assert states == ["failed" if n == 3 else "succeeded" for n in range(6)]


async def test_a_call_of_next_that_does_not_fit_raises_where_it_stands(hw) -> None:
    flow = hw.flow("flow")
    wrong = {"missing": ((), {}), "more": ((1, 2), {}), "unknown": ((1,), {"b": 2})}

    @flow.step(retry=Retry(max_attempts=1))
    async def first(how: str) -> Next:
        args, kwargs = wrong[how]
        return second.next(*args, **kwargs)

    @flow.step
    async def second(a: int) -> None: ...

    jobs = await flow.enqueue_many([{"how": how} for how in wrong])
    await hw.run_until_idle()
    for job in jobs:
        error = (await job.status()).error
        assert error["type"] == "headway.errors.InvalidInput"
        assert "flow/second" in error["message"]
        assert "it takes (a: int)" in error["message"]
        assert "second.next(*args, **kwargs)" in error["traceback"]


async def test_a_step_cannot_go_to_a_step_of_another_flow(hw, db) -> None:
    mine, other = hw.flow("mine", retry=AT_ONCE), hw.flow("other")

    @mine.step
    async def first() -> Next:
        return elsewhere.next()

    @other.step
    async def elsewhere() -> None: ...

    job = await mine.enqueue()
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.step, status.attempt) == ("failed", "first", 1)
    assert status.error["message"] == (
        "mine/first returned other/elsewhere, which is not a step of its flow; "
        "enqueue another job instead"
    )


async def test_a_plain_task_cannot_go_anywhere(hw) -> None:
    flow = hw.flow("flow")

    @flow.step
    async def only() -> None: ...

    @hw.task(retry=AT_ONCE)
    async def plain() -> Next:
        return only.next()

    @hw.task(retry=AT_ONCE)
    async def listed() -> list[Next]:
        return [only.next()]

    jobs = [await plain.enqueue(), await listed.enqueue()]
    await hw.run_until_idle()
    first, second = [await job.status() for job in jobs]
    assert (first.state, first.attempt, second.state, second.attempt) == ("failed", 1, "failed", 1)
    assert "plain returned flow/only, which is not a step of its flow" in first.error["message"]
    assert "cannot be stored as JSON" in second.error["message"]


async def test_a_key_that_cannot_be_one_fails_the_step_before_it(hw) -> None:
    flow = hw.flow("flow", retry=AT_ONCE)

    @flow.step
    async def first() -> Next:
        return second.next("")

    @flow.step(concurrency_key=lambda name: name)
    async def second(name: str) -> None: ...

    job = await flow.enqueue()
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.step, status.attempt) == ("failed", "first", 1)
    assert "concurrency_key '' must be 1 to 200 printable characters" in status.error["message"]


async def test_a_result_that_cannot_be_stored_fails_the_last_step_at_once(hw) -> None:
    flow = hw.flow("flow", retry=AT_ONCE)

    @flow.step
    async def first() -> Next:
        return second.next()

    @flow.step
    async def second():
        return object()

    job = await flow.enqueue()
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.step, status.attempt) == ("failed", "second", 1)
    assert status.error["type"] == "InvalidResult"


def test_bad_definitions_say_what_is_wrong(hw) -> None:
    flow = hw.flow("flow")

    @flow.step
    async def step(n: int) -> None: ...

    async def other(n: int) -> None: ...

    def plain(n: int) -> None: ...

    bad = {
        r"has a step 'step' already; give this one another name=": lambda: flow.step(
            step.definition.function
        ),
        r"step name 'a/b' must not contain /": lambda: flow.step(name="a/b")(other),
        r"^flow name 'a/b' must not": lambda: hw.flow("a/b"),
        r"there is a task or flow 'flow' already": lambda: hw.flow("flow"),
        r"flow new has no option 'que'; did you mean 'queue'\?": lambda: hw.flow("new", que="x"),
        r"a step of flow has no option 'retries'; did you mean 'retry'\?": lambda: flow.step(
            retries=3
        )(other),
        r"a step of flow has no option 'ttl'": lambda: flow.step(ttl="1h")(other),
        r"timeout": lambda: flow.step(timeout="soon")(other),
        r"delay": lambda: flow.step(delay="soon")(other),
        r"cannot run with executor=\"thread\"": lambda: flow.step(executor="thread")(other),
        r"must be defined at the top of a module": lambda: flow.step(executor="process")(plain),
        r"slots 0 of flow/other must be at least 1": lambda: flow.step(slots=0)(other),
        r"cannot take its own failures": lambda: hw.flow("loop", on_failure="loop").step(other),
        r"keep 'for ever' is not a duration": lambda: hw.flow("kept", keep="for ever"),
    }
    for words, define in bad.items():
        with pytest.raises(ConfigError, match=words):
            define()


async def test_a_flow_without_steps_can_neither_be_enqueued_nor_run(hw) -> None:
    flow = hw.flow("empty")
    with pytest.raises(ConfigError, match="flow empty"):
        await flow.enqueue()
    with pytest.raises(ConfigError, match="flow empty"):
        await hw.run_until_idle()
