"""`hw.queues`: looking at queues, pausing and resuming them."""

import asyncio

import pytest

from headway import Headway
from headway.errors import ConfigError
from tests.support import DEADLINE, eventually


@pytest.fixture
def mail(hw: Headway):
    ran: list[int] = []

    @hw.task(queue="mail")
    async def mail(n: int) -> None:
        ran.append(n)

    mail.ran = ran
    return mail


async def test_queues_are_listed_with_what_waits_in_them(hw, mail) -> None:
    assert await hw.queues.list() == []
    await mail.enqueue_many({"n": n} for n in range(3))
    await mail.using(delay="1h").enqueue(9)
    await mail.using(queue="other").enqueue(1)
    told = {row.name: row for row in await hw.queues.list()}
    assert set(told) == {"mail", "other"}
    assert (told["mail"].ready, told["mail"].scheduled, told["mail"].running) == (3, 1, 0)
    assert told["mail"].oldest_ready_age >= 0
    assert told["mail"].paused_at is None


async def test_a_paused_queue_waits_and_says_why(hw, mail) -> None:
    await hw.queues.pause("mail", reason="provider down", actor="ada")
    await mail.enqueue(1)
    await hw.run_until_idle()
    (row,) = await hw.queues.list()
    assert (row.name, row.ready, row.paused_by, row.pause_reason) == (
        "mail",
        1,
        "ada",
        "provider down",
    )
    assert row.paused_at is not None
    assert mail.ran == []
    assert await hw.queues.resume("mail") is True
    await hw.run_until_idle()
    assert mail.ran == [1]
    assert await hw.queues.list() == [], "nothing waits there, and it has no settings"


async def test_a_queue_that_was_not_paused_cannot_be_resumed(hw, mail) -> None:
    assert await hw.queues.resume("mail") is False
    assert await hw.queues.resume("no such queue") is False


async def test_a_second_pause_changes_the_reason_and_not_the_moment(hw) -> None:
    await hw.queues.pause("mail", reason="first")
    (before,) = await hw.queues.list()
    await hw.queues.pause("mail", reason="second", actor="bob")
    (after,) = await hw.queues.list()
    assert after.paused_at == before.paused_at
    assert (after.pause_reason, after.paused_by) == ("second", "bob")


async def test_a_running_worker_stops_claiming_and_goes_on_when_told(hw, mail, start) -> None:
    @hw.task(queue="calm")
    async def calm() -> None: ...

    start(poll="1h")
    await (await mail.enqueue(0)).result(timeout="60s")
    await hw.queues.pause("mail")
    held = await mail.enqueue_many({"n": n} for n in range(1, 20))
    high = await mail.using(priority=7).enqueue(20)
    await (await calm.enqueue()).result(timeout="60s")
    assert mail.ran == [0]
    assert {(await job.status()).state for job in held} == {"ready"}
    await hw.queues.resume("mail")
    await asyncio.gather(*[job.result(timeout="60s") for job in [*held, high]])
    assert sorted(mail.ran) == list(range(21))


async def test_what_runs_when_a_queue_is_paused_goes_on(hw, start) -> None:
    inside, opened = asyncio.Event(), asyncio.Event()

    @hw.task(queue="mail")
    async def slow() -> str:
        inside.set()
        await opened.wait()
        return "done"

    start()
    job = await slow.enqueue()
    await asyncio.wait_for(inside.wait(), DEADLINE)
    await hw.queues.pause("mail")
    opened.set()
    assert await job.result(timeout="60s") == "done"


async def test_a_retry_of_a_paused_queue_waits_too(hw, start) -> None:
    runs: list[int] = []

    @hw.task(queue="mail")
    async def task() -> None:
        runs.append(1)
        if len(runs) == 1:
            await hw.queues.pause("mail")
            raise ValueError

    start()
    job = await task.enqueue()

    async def ready_again() -> bool:
        status = await job.status()
        return status.state == "ready" and status.attempt == 1

    await eventually(ready_again)
    assert runs == [1]
    await hw.queues.resume("mail")
    await job.result(timeout="60s")


@pytest.mark.parametrize("name", ["", " mail", "a\0b"])
async def test_a_name_that_no_queue_can_have_is_refused(hw, name: str) -> None:
    with pytest.raises(ConfigError, match="queue"):
        await hw.queues.pause(name)
    with pytest.raises(ConfigError, match="queue"):
        hw.queues.pause_sync(name)


def test_the_same_without_an_event_loop(dsn: str, schema: str) -> None:
    with Headway(dsn, schema=schema) as hw:
        hw.queues.pause_sync("mail", reason="closed")
        assert [row.pause_reason for row in hw.queues.list_sync()] == ["closed"]
        assert hw.queues.resume_sync("mail") is True
        assert hw.queues.resume_sync("mail") is False
