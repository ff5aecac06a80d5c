"""Renamed parameters, tasks, flows and steps: jobs that were made under the earlier names still run."""

from __future__ import annotations

import pytest

from headway import Headway, Next
from headway.errors import ConfigError, JobFailed


@pytest.fixture
def old(dsn: str, schema: str) -> Headway:
    """The app before the deploy."""
    return Headway(dsn, schema=schema)


async def test_a_job_with_an_earlier_parameter_runs_if_that_is_an_alias(hw, old) -> None:
    @old.task(name="welcome")
    async def before(email: str, days: int = 1) -> None: ...

    @hw.task(aliases={"email": "recipient", "days": "period"})
    async def welcome(recipient: str, period: int = 1, note: str = "") -> str:
        return f"{recipient} {period}"

    job = await before.enqueue("a@b.c")
    now = await welcome.enqueue("d@e.f", period=2)
    await hw.run_until_idle()
    assert await hw.job(job.id).result() == "a@b.c 1"
    assert await now.result() == "d@e.f 2"
    await old.close()


async def test_a_job_with_both_names_or_another_one_fails(hw, db) -> None:
    @hw.task(aliases={"email": "recipient"})
    async def welcome(recipient: str) -> None: ...

    for input_ in ({"recipient": "a", "email": "b"}, {"other": "a"}, {"email": 1}):
        job = await hw.jobs.enqueue("welcome", input_)
        await hw.run_until_idle()
        with pytest.raises(JobFailed):
            await job.result()


async def test_a_renamed_task_runs_jobs_of_both_names(hw, old, db) -> None:
    @old.task(name="greet", queue="mail")
    async def before() -> None: ...

    @hw.task(queue="mail", former_names=["hello", "greet"])
    async def welcome() -> str:
        return "run"

    jobs = [await before.enqueue(), await welcome.enqueue()]
    await hw.run_until_idle()
    assert [await hw.job(job.id).result() for job in jobs] == ["run", "run"]
    assert set(hw.tasks) == {"welcome"}
    await old.close()


async def test_a_renamed_flow_and_step_go_on_where_they_stand(hw, old) -> None:
    was = old.flow("receipts")

    @was.step
    async def begin() -> Next:
        return send.next(key="k")

    @was.step
    async def send(key: str) -> None:
        raise ValueError

    flow = hw.flow("invoices", former_names=["receipts"])

    @flow.step(aliases={"key": "path"}, former_names=["send"])
    async def mail(path: str) -> str:
        return path

    @flow.step
    async def book(done: str) -> str:
        return f"booked {done}"

    flow.chain(mail, book)
    job = await was.enqueue()
    await old.run_until_idle()
    await job.cancel()
    assert await hw.job(job.id).retry()
    await hw.run_until_idle()
    status = await hw.job(job.id).status()
    assert (status.task, status.step, status.result) == ("receipts", "book", "booked k")
    await old.close()


def test_names_that_clash_are_refused(hw) -> None:
    @hw.task(former_names=["b"])
    def a() -> None: ...

    with pytest.raises(ConfigError, match="'b'"):
        hw.task(name="b")(lambda: None)
    with pytest.raises(ConfigError, match="'a'"):
        hw.task(name="c", former_names=["a"])(lambda: None)
    with pytest.raises(ConfigError, match="former_names"):
        hw.task(name="d", former_names="e")(lambda: None)
    flow = hw.flow("f")
    flow.step(name="one")(lambda: None)
    flow.step(name="two", former_names=["one"])(lambda: None)
    with pytest.raises(ConfigError, match="'one'"):
        flow.definitions()


@pytest.mark.parametrize("aliases", [{"x": "y"}, {"n": "n"}, {"old": 1}, ["n"]])
def test_aliases_that_cannot_be_are_refused(hw, aliases) -> None:
    def task(n: int) -> None: ...

    with pytest.raises(ConfigError):
        hw.task(aliases=aliases)(task)
