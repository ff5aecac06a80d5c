"""Chains: each step takes the result of the one before."""

import pytest

from headway import Context, Headway, Next, Retry
from headway.errors import ConfigError, JobFailed

AT_ONCE = Retry(max_attempts=3, backoff="constant", base=0, jitter=0)


@pytest.fixture
def chain(hw: Headway):
    """Three steps, one after the other, and one outside the chain."""
    flow = hw.flow("chain")

    @flow.step
    async def parse(text: str) -> int | Next:
        if text == "elsewhere":
            return aside.next(why=text)
        return int(text)

    @flow.step(retry=AT_ONCE)
    def double(ctx: Context, number: int, factor: int = 2) -> dict[str, int]:
        if ctx.attempt == 1 and number == 3:
            raise OSError("once")
        return {"doubled": number * factor}

    @flow.step
    async def describe(found: dict[str, int]) -> str:
        return f"doubled: {found['doubled']}"

    @flow.step
    async def aside(why: str) -> str:
        return f"aside: {why}"

    flow.chain(parse, double, describe)
    return flow


async def test_each_step_takes_the_result_of_the_one_before(hw, chain) -> None:
    job = await chain.enqueue("3")
    await hw.run_until_idle()
    assert await job.result() == "doubled: 6"
    assert [(row.step, row.outcome, row.next_step, row.input) for row in await job.history()] == [
        ("parse", "moved", "double", {"text": "3"}),
        ("double", "retried", None, None),
        ("double", "moved", "describe", {"number": 3, "factor": 2}),
        ("describe", "done", None, {"found": {"doubled": 6}}),
    ]


async def test_a_step_of_a_chain_may_go_elsewhere_and_leaves_it_by_that(hw, chain) -> None:
    job = await chain.enqueue("elsewhere")
    await hw.run_until_idle()
    assert await job.result() == "aside: elsewhere"


async def test_a_result_that_does_not_fit_the_next_step_fails_the_step_that_returned_it(hw) -> None:
    flow = hw.flow("unfit", retry=AT_ONCE)

    @flow.step
    async def one():
        return "not a number"

    @flow.step
    async def two(n: int) -> int:
        return n

    flow.chain(one, two)
    job = await flow.enqueue()
    await hw.run_until_idle()
    with pytest.raises(JobFailed, match="unfit/two: Expected `int`, got `str`"):
        await job.result()
    status = await job.status()
    assert (status.step, status.attempt, status.error["type"]) == ("one", 1, "InvalidInput")


async def test_a_step_that_returns_nothing_gives_the_next_one_nothing(hw) -> None:
    flow = hw.flow("nothing")

    @flow.step
    async def one() -> None: ...

    @flow.step
    async def two(value: None) -> str:
        return f"got {value}"

    flow.chain(one, two)
    job = await flow.enqueue()
    await hw.run_until_idle()
    assert await job.result() == "got None"


@pytest.mark.parametrize("takes", ["nothing", "two", "a keyword"])
async def test_a_step_of_a_chain_that_cannot_take_one_value_is_refused_when_a_worker_starts(
    hw, takes: str
) -> None:
    flow = hw.flow("arity")

    @flow.step
    async def one() -> int:
        return 1

    if takes == "nothing":

        @flow.step
        async def two(ctx: Context) -> None: ...
    elif takes == "two":

        @flow.step
        async def two(a: int, b: int) -> None: ...
    else:

        @flow.step
        async def two(*, a: int) -> None: ...

    flow.chain(one, two)
    with pytest.raises(ConfigError, match="arity/two"):
        await hw.run_until_idle()


def test_a_step_is_followed_by_one_step(hw, chain) -> None:
    parse, other = chain.step(lambda_step("p")), chain.step(lambda_step("q"))
    chain.chain(parse, other)
    with pytest.raises(ConfigError, match="chain/p"):
        chain.chain(parse, parse)


def test_a_chain_is_made_of_steps_of_its_flow(hw, chain) -> None:
    stranger = hw.flow("other").step(lambda_step("stranger"))
    mine = chain.step(lambda_step("mine"))
    with pytest.raises(ConfigError, match="other/stranger"):
        chain.chain(stranger, mine)
    with pytest.raises(ConfigError, match="other/stranger"):
        chain.chain(mine, stranger)


def lambda_step(name: str):
    async def step(value: int) -> int:
        return value

    step.__name__ = name
    return step
