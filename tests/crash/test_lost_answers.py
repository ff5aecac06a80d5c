"""R17: a call whose reply was lost answers what happened, not what its repetition found."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from headway import Context, Headway, Job
from tests.crash.proxy import Proxy, opening
from tests.crash.tasks import register
from tests.support import eventually


@pytest.fixture
async def far(proxy: Proxy, schema: str) -> AsyncIterator[Headway]:
    """An app that reaches the database through the proxy."""
    app = register(Headway(proxy.dsn, schema=schema))
    yield app
    await app.close()
    app.close_sync()


async def _call(how: str, thing: Any, method: str, *arguments: Any) -> Any:
    if how == "async":
        return await getattr(thing, method)(*arguments)
    return await asyncio.to_thread(getattr(thing, f"{method}_sync"), *arguments)


def _end_later(db: psycopg.Connection[Any], job: Job[Any]) -> None:
    """Let a job end a little after now, as it seems to a client whose clock runs behind."""
    db.execute(
        "update archive set finished_at = finished_at + interval '1 s' where id = %s", [job.id]
    )


BOTH = pytest.mark.parametrize("how", ["async", "sync"])


@BOTH
async def test_r17_a_cancel_whose_reply_was_lost_took_effect(
    far: Headway, proxy: Proxy, schema: str, how: str
) -> None:
    job = await far.tasks["echo"].enqueue(1)
    lost = proxy.lose_reply(opening("calls/cancel", schema))
    assert await _call(how, job, "cancel") is True
    assert lost.answered.is_set()
    assert (await job.status()).state == "cancelled"


@BOTH
async def test_r17_a_cancel_of_a_job_that_was_cancelled_before_changes_nothing(
    far: Headway, proxy: Proxy, schema: str, db: psycopg.Connection[Any], how: str
) -> None:
    job = await far.tasks["echo"].enqueue(1)
    await job.cancel()
    _end_later(db, job)
    lost = proxy.lose_reply(opening("calls/cancel", schema))
    assert await _call(how, job, "cancel") is False
    assert lost.answered.is_set()


@BOTH
async def test_r17_a_retry_whose_reply_was_lost_took_effect(
    far: Headway, proxy: Proxy, schema: str, how: str
) -> None:
    job = await far.tasks["echo"].enqueue(1)
    await job.cancel()
    lost = proxy.lose_reply(opening("calls/revive", schema))
    assert await _call(how, job, "retry") is True
    assert lost.answered.is_set()
    assert (await job.status()).state == "ready"
    lost = proxy.lose_reply(opening("calls/revive", schema))
    assert await _call(how, job, "retry") is False, "it waited already"
    assert lost.answered.is_set()


@BOTH
async def test_r17_an_edit_whose_reply_was_lost_took_effect_though_the_job_runs_now(
    far: Headway, app: Headway, proxy: Proxy, schema: str, start: Any, how: str
) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    @app.task(name="slow")
    async def slow(ctx: Context, n: int) -> int:
        began.set()
        await go_on.wait()
        return n

    @far.task(name="slow")
    async def known(ctx: Context, n: int) -> int:
        raise AssertionError("it runs on the other app")

    job = await known.enqueue(n=1)
    lost = proxy.lose_reply(opening("calls/edit", schema), patient=True)
    editing = asyncio.create_task(_call(how, job, "edit", {"n": 2}))
    await eventually(lost.answered.is_set)
    start()
    await asyncio.wait_for(began.wait(), 60)
    proxy.release(lost)
    assert await editing is True
    go_on.set()
    assert await job.result(timeout="60s") == 2


@BOTH
@pytest.mark.parametrize(
    ("verb", "arguments", "state"),
    [
        ("complete", ({"n": 1},), "succeeded"),
        ("fail", ("broken",), "scheduled"),
        ("release", (), "ready"),
        ("snooze", ("1h",), "scheduled"),
    ],
)
async def test_r17_a_settling_whose_reply_was_lost_took_effect(
    far: Headway,
    proxy: Proxy,
    schema: str,
    how: str,
    verb: str,
    arguments: tuple[Any, ...],
    state: str,
) -> None:
    job = await far.tasks["echo"].using(queue="ext").enqueue(1)
    pulled = await anext(far.pull("ext", lease="1h"))
    lost = proxy.lose_reply(f".{verb}(")
    assert await _call(how, pulled, verb, *arguments) is True
    assert lost.answered.is_set()
    assert (await job.status()).state == state


@BOTH
async def test_r17_a_settling_of_a_claim_that_was_lost_is_false_after_a_repetition_too(
    far: Headway, app: Headway, proxy: Proxy, db: psycopg.Connection[Any], start: Any, how: str
) -> None:
    await far.tasks["echo"].using(queue="ext").enqueue(1)
    pulled = await anext(far.pull("ext", lease="1h"))
    db.execute("update worker set expires_at = now() - interval '1 s'")
    start(queues=["other"])
    await eventually(lambda: db.execute("select 1 from attempt").fetchone())
    lost = proxy.lose_reply(".complete(")
    assert await _call(how, pulled, "complete") is False
    assert lost.answered.is_set()
