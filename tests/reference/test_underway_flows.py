"""Underway's tests of jobs in steps, U58 to U63 and U65 to U69: starting, state, context, moving on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headway import Context, Headway, Next, Retry
from tests.reference.scenes import two_steps


@dataclass
class Notes:
    """What a flow carries along, in underway a struct that lives in one process."""

    seen: list[str] = field(default_factory=list)


async def greet(name: str) -> str:
    """A function that was there before any flow."""
    return f"hello {name}"


async def test_u58_a_flow_of_one_step_runs_it(hw: Headway) -> None:
    """Underway: a step is a closure. Headway: a decorated function; what it returns is kept."""
    flow = hw.flow("one")

    @flow.step
    async def only(name: str) -> str:
        return f"hello {name}"

    job = await flow.enqueue(name="Ada")
    assert (await hw.run_until_idle()).settled == {"succeed": 1}
    assert await job.result() == "hello Ada"


async def test_u59_a_function_defined_elsewhere_is_a_step(hw: Headway) -> None:
    """Underway: a named function as a step. Headway: the same, by calling `flow.step`."""
    flow = hw.flow("one")
    step = flow.step(greet)
    job = await flow.enqueue(name="Ada")
    await hw.run_until_idle()
    assert (step.name, await job.result()) == ("greet", "hello Ada")
    assert await greet("Bob") == "hello Bob", "and it is still a function"


async def test_u60_a_step_has_the_flows_state(hw: Headway) -> None:
    """Underway: state is given to the builder, for all runs. Headway: a type; each job has its own."""
    flow = hw.flow("one", state=Notes)

    @flow.step
    async def only(ctx: Context) -> list[str]:
        return flow.state(ctx).seen

    own = await flow.using(state=Notes(["given"])).enqueue()
    fresh = await flow.enqueue()
    await hw.run_until_idle()
    assert (await own.result(), await fresh.result()) == (["given"], [])


async def test_u61_a_function_defined_elsewhere_has_it_too(hw: Headway) -> None:
    """Underway: the context of a named function has it. Headway: the same, as `ctx.state`."""
    flow = hw.flow("one", state=Notes)

    def note(ctx: Context) -> list[str]:
        assert isinstance(ctx.state, Notes)
        return [*ctx.state.seen, ctx.step]

    flow.step(note)
    job = await flow.using(state=Notes(["before"])).enqueue()
    await hw.run_until_idle()
    assert await job.result() == ["before", "note"]


async def test_u62_a_flow_is_stored_at_its_first_step_with_its_input(hw: Headway) -> None:
    """Underway: step_index 0, input, default policy. Headway: the first step's name, the same."""
    status = await (await two_steps(hw).enqueue(number=3)).status()
    assert (status.task, status.step, status.input) == ("two", "first", {"number": 3})
    assert (status.state, status.attempt, status.max_attempts) == ("ready", 0, 5)


async def test_u63_state_changed_by_a_step_is_seen_outside(hw: Headway) -> None:
    """Underway: through a mutex, in this process alone. Headway: in the job's row, from anywhere."""
    flow = hw.flow("one", state=Notes)

    @flow.step
    async def only(ctx: Context) -> None:
        flow.state(ctx).seen.append(ctx.step)

    job = await flow.enqueue()
    assert (await job.status()).carried == {"seen": []}
    await hw.run_until_idle()
    assert (await job.status()).carried == {"seen": ["only"]}


async def test_u65_the_context_says_where_the_flow_is(hw: Headway) -> None:
    """Underway: step_index, step_count, queue name. Headway: flow, step and queue by name."""
    flow = hw.flow("one", queue="orders")
    seen: list[Any] = []

    @flow.step
    async def only(ctx: Context) -> None:
        seen.append((ctx.task, ctx.step, ctx.queue, ctx.job_id, ctx.attempt))

    job = await flow.enqueue()
    await hw.run_until_idle()
    assert seen == [("one", "only", "orders", job.id, 1)]


async def test_u66_after_the_first_step_the_queue_holds_the_second(hw: Headway) -> None:
    """Underway: a new task with the output as its input. Headway: the same job, moved on."""
    job = await two_steps(hw).enqueue(number=3)
    assert (await hw.run_until_idle(queues={"default": 1})).settled == {"advance": 1}
    status = await job.status()
    assert (status.state, status.step, status.input) == ("ready", "second", {"number": 4})
    await hw.run_until_idle()
    assert await job.result() == 40


async def test_u67_the_second_step_has_the_state_that_the_first_left(hw: Headway) -> None:
    """Underway: one state in memory for all steps. Headway: written with the move (decision 54)."""
    flow = hw.flow("two", state=Notes)

    @flow.step
    async def first(ctx: Context) -> Next:
        flow.state(ctx).seen.append("first")
        return second.next()

    @flow.step
    async def second(ctx: Context) -> list[str]:
        return flow.state(ctx).seen

    job = await flow.enqueue()
    await hw.run_until_idle()
    assert await job.result() == ["first"]


async def test_u68_a_job_keeps_its_id_through_all_its_steps(hw: Headway) -> None:
    """Underway: a job id in the input of each task. Headway: there is one row (decision 51)."""
    job = await two_steps(hw).enqueue(number=1)
    await hw.run_until_idle(queues={"default": 1})
    assert (await hw.job(job.id).status()).step == "second"
    await hw.run_until_idle()
    assert [row.step for row in await job.history()] == ["first", "second"]


async def test_u69_each_step_has_a_policy_of_its_own(hw: Headway) -> None:
    """Underway: each step's task carries its policy. Headway: the row's attempts are the step's."""
    flow = hw.flow("two", retry=Retry(max_attempts=2, base=0))
    counts: list[tuple[str, int, int]] = []

    @flow.step
    async def first(ctx: Context) -> Next:
        counts.append((ctx.step, ctx.attempt, ctx.max_attempts))
        if ctx.attempt < 2:
            raise OSError
        return second.next()

    @flow.step(retry=Retry(max_attempts=3, base=0))
    async def second(ctx: Context) -> None:
        counts.append((ctx.step, ctx.attempt, ctx.max_attempts))
        raise OSError

    job = await flow.enqueue()
    await hw.run_until_idle()
    assert (await job.status()).state == "failed"
    assert counts == [("first", n, 2) for n in (1, 2)] + [("second", n, 3) for n in (1, 2, 3)]
