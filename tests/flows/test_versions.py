"""Two versions of an app side by side, and steps that come and go."""

import pytest

from headway import Headway, Next
from headway.errors import UnknownTask
from headway.store.statements import inspect
from tests.support import DEADLINE, Running, eventually


@pytest.fixture
async def apps(dsn: str, schema: str):
    """Apps on the same database, closed after the test."""
    opened: list[Headway] = []

    def make() -> Headway:
        opened.append(Headway(dsn, schema=schema))
        return opened[-1]

    yield make
    for app in opened:
        await app.close()


def with_steps(app: Headway, *names: str):
    """A flow whose steps go through all of `names` by turns, wherever they are known."""
    flow = app.flow("order")
    steps = {}

    def define(position: int, name: str) -> None:
        async def step(seen: list[str]) -> Next | list[str]:
            onward = names[position + 1 :]
            return steps[onward[0]].next([*seen, name]) if onward else [*seen, name]

        step.__name__ = name
        steps[name] = flow.step(step)

    for position, name in enumerate(names):
        define(position, name)
    return flow, steps


async def test_a_step_this_worker_does_not_know_is_left_for_one_that_does(apps) -> None:
    old, new = apps(), apps()
    with_steps(old, "a")
    _, steps = with_steps(new, "a", "b")
    job = await steps["b"].enqueue(["from before"])
    await old.run_until_idle()
    status = await job.status()
    assert (status.state, status.step, status.attempt) == ("ready", "b", 0)
    await new.run_until_idle()
    assert await job.result() == ["from before", "b"]


async def test_what_no_live_worker_knows_shows_as_stranded_until_one_does(apps) -> None:
    old, new = apps(), apps()
    with_steps(old, "a")
    _, steps = with_steps(new, "a", "b")
    job = await steps["b"].enqueue([])
    worker = Running(old.worker(grace="1s"))

    async def stranded() -> dict[str, int]:
        if not [w for w in await new._session.client.run(inspect.workers(None)) if w.alive]:
            return {}
        return await new._session.client.run(inspect.stranded(None))

    try:
        assert await eventually(stranded) == {"order/b": 1}
        assert (await job.status()).attempt == 0
        newer = Running(new.worker(grace="1s"))
        try:
            assert await job.result(timeout=DEADLINE) == ["b"]
            assert await stranded() == {}
        finally:
            await newer.stop()
    finally:
        await worker.stop()


async def test_two_versions_share_the_work_and_no_step_runs_where_it_is_not_known(apps) -> None:
    old, new = apps(), apps()
    flow = old.flow("order")
    ran: list[str] = []

    @flow.step
    async def a(n: int) -> str:
        ran.append("old a")
        return "ended by the old version"

    flow = new.flow("order")

    @flow.step(name="a")
    async def new_a(n: int) -> Next:
        ran.append("new a")
        return b.next(n)

    @flow.step
    async def b(n: int) -> str:
        ran.append("new b")
        return "ended by the new version"

    jobs = await flow.enqueue_many([{"n": n} for n in range(30)])
    workers = [Running(app.worker(concurrency=2, grace="1s")) for app in (old, new)]
    results = [await job.result(timeout=DEADLINE) for job in jobs]
    for worker in workers:
        await worker.stop()
    assert len(ran) == 30 + ran.count("new b")
    assert results.count("ended by the new version") == ran.count("new a") == ran.count("new b")
    assert results.count("ended by the old version") == ran.count("old a")


async def test_a_flow_whose_step_was_removed_waits_and_resumes_when_it_is_there_again(apps) -> None:
    first, renamed, mended = apps(), apps(), apps()
    flow, _ = with_steps(first, "a", "b")
    with_steps(renamed, "a", "c")
    job = await flow.enqueue([])
    del first.tasks["order"]._steps.steps["b"]  # a version that moves there, and cannot run it
    await first.run_until_idle()
    await renamed.run_until_idle()
    status = await job.status()
    assert (status.state, status.step, status.input) == ("ready", "b", {"seen": ["a"]})
    with pytest.raises(UnknownTask, match="'b'"):
        await renamed.job(job.id).edit({"seen": []})
    with_steps(mended, "a", "b", "c")
    await mended.run_until_idle()
    assert await job.result() == ["a", "b", "c"]


async def test_a_step_may_have_another_name_than_its_function(apps) -> None:
    app = apps()
    flow = app.flow("named")

    @flow.step(name="new name, once renamed")
    async def function(n: int) -> int:
        return n

    assert function.name == "new name, once renamed"
    job = await flow.enqueue(1)
    await app.run_until_idle()
    assert (await job.status()).step == "new name, once renamed"


async def test_an_input_that_fits_the_old_step_and_not_the_new_one_fails_and_can_be_mended(
    apps,
) -> None:
    old, new = apps(), apps()
    flow = old.flow("order")

    @flow.step
    async def a(n: int) -> None: ...

    job = await flow.enqueue(1)
    flow = new.flow("order")

    @flow.step(name="a")
    async def newer(number: int) -> int:
        return number

    await new.run_until_idle()
    status = await job.status()
    assert (status.state, status.attempt, status.error["type"]) == ("failed", 1, "InvalidInput")
    handle = new.job(job.id)
    assert await handle.edit({"number": 9})
    assert await handle.retry()
    await new.run_until_idle()
    assert await handle.result() == 9
