"""Callers get an answer or an error in bounded time when the server is silent or away."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.errors import DatabaseUnavailable, ResultTimeout
from tests.crash.count import assert_each_finished_once, unfinished
from tests.crash.proxy import Proxy, opening
from tests.crash.server import OwnServer
from tests.crash.tasks import register
from tests.support import DEADLINE, eventually

Call = Callable[[Headway], Awaitable[Any]]


@pytest.fixture
async def far(proxy: Proxy, schema: str) -> AsyncIterator[Headway]:
    """An app that reaches the database through the proxy, and soon takes silence for a fault."""
    # Without the bell: tests count the connections of callers.
    app = register(Headway(proxy.dsn, schema=schema, notify=False))
    app._session.client.answer_within = 0.5
    yield app
    proxy.accept()
    proxy.thaw()
    await app.close()
    app.close_sync()


async def _in_time(call: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(call, DEADLINE)


def _sync(call: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
    return asyncio.to_thread(call, *arguments)


CALLS: dict[str, Call] = {
    "enqueue": lambda app: app.tasks["echo"].enqueue(1),
    "enqueue_sync": lambda app: _sync(app.tasks["echo"].enqueue_sync, 1),
    "status": lambda app: _known(app).status(),
    "status_sync": lambda app: _sync(_known(app).status_sync),
    "result": lambda app: _known(app).result(),
    "result_sync": lambda app: _sync(_known(app).result_sync),
}


def _known(app: Headway) -> Any:
    return app.job(app.known)  # type: ignore[attr-defined]


@pytest.mark.parametrize("call", CALLS)
async def test_h2_a_call_is_back_though_its_connection_never_answers_again(
    far: Headway, app: Headway, proxy: Proxy, call: str
) -> None:
    job = await app.tasks["echo"].enqueue(7)
    await app.run_until_idle()
    far.known = job.id  # type: ignore[attr-defined]
    await CALLS[call](far)
    proxy.strand()
    await _in_time(CALLS[call](far))


@pytest.mark.parametrize("call", ["enqueue", "enqueue_sync"])
async def test_h2_a_server_that_never_answers_is_an_error_that_says_so(
    far: Headway, proxy: Proxy, call: str
) -> None:
    far._session.client.timeout = 2.0
    await CALLS[call](far)
    proxy.black_hole()
    with pytest.raises(DatabaseUnavailable, match=r"no answer|timeout"):
        await _in_time(CALLS[call](far))


@pytest.mark.parametrize("how", ["async", "sync"])
async def test_h2_on_the_callers_connection_nothing_is_cut(
    far: Headway, proxy: Proxy, schema: str, how: str
) -> None:
    held = proxy.hold_reply(opening("writes/enqueue_one_in", schema))
    task = far.tasks["echo"]
    if how == "async":
        async with await psycopg.AsyncConnection.connect(proxy.dsn) as conn:
            enqueuing = asyncio.create_task(task.using(conn=conn).enqueue(1))
            await eventually(held.answered.is_set)
            await asyncio.sleep(2 * far._session.client.answer_within)
            proxy.release(held)
            await _in_time(enqueuing)
            await conn.commit()
    else:
        with psycopg.connect(proxy.dsn) as own:
            waiting = asyncio.create_task(_sync(task.using(conn=own).enqueue_sync, 1))
            await eventually(held.answered.is_set)
            await asyncio.sleep(2 * far._session.client.answer_within)
            proxy.release(held)
            await _in_time(waiting)
            own.commit()


@pytest.mark.parametrize("call", ["enqueue", "enqueue_sync"])
async def test_h2_g3_what_a_stopped_backend_does_when_it_wakes_makes_no_second_job(
    own_server: OwnServer, call: str
) -> None:
    """The request is in its socket. By the time that it wakes, the repetition's job has run."""
    app = register(Headway(own_server.dsn, schema="headway"))
    await app.migrate()
    app._session.client.answer_within = 0.5
    mine = """select pid from pg_stat_activity
              where application_name = 'headway' and backend_type = 'client backend'"""
    with psycopg.connect(own_server.dsn, autocommit=True) as db:
        db.execute("set search_path = headway")
        await CALLS[call](app)
        await app.run_until_idle()
        db.execute("delete from archive")
        ((pid,),) = db.execute(mine).fetchall()
        os.kill(pid, signal.SIGSTOP)
        try:
            job = await _in_time(CALLS[call](app))
            await app.run_until_idle()
        finally:
            os.kill(pid, signal.SIGCONT)
        await eventually(lambda: (pid,) not in db.execute(mine).fetchall())
        assert unfinished(db) == 0
        assert_each_finished_once(db, [job])
    await app.close()
    app.close_sync()


@pytest.mark.parametrize("call", ["enqueue", "enqueue_sync"])
async def test_h4_the_first_call_after_an_outage_works_at_its_first_try(
    far: Headway, proxy: Proxy, call: str
) -> None:
    """However long the outage was: nobody's back-off decides."""
    client = far._session.client
    await CALLS[call](far)
    client.timeout = 4.0
    proxy.refuse()
    before = proxy.accepted
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable, match="closed the connection"):
            await _in_time(CALLS[call](far))
    assert 4 <= proxy.accepted - before <= 20, "several tries, and no storm"
    proxy.accept()
    before = proxy.accepted
    await _in_time(CALLS[call](far))
    assert proxy.accepted - before == 1


async def test_h4_callers_in_parallel_share_the_attempts_of_an_outage(
    far: Headway, proxy: Proxy
) -> None:
    client = far._session.client
    client.timeout = 3.0
    await CALLS["enqueue"](far)
    proxy.refuse()
    before = proxy.accepted
    calls = [CALLS["enqueue"](far) for _ in range(40)]
    failed = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(error) for error in failed} == {DatabaseUnavailable}
    assert proxy.accepted - before <= 10 + 10, "those of the pool at once, then one after the other"


@pytest.mark.parametrize("call", ["enqueue", "enqueue_sync"])
async def test_h4_the_error_names_the_cause(call: str) -> None:
    nowhere = register(Headway("postgresql://nobody@127.0.0.1:1/none"))
    nowhere._session.timeout = 0.5
    with pytest.raises(DatabaseUnavailable, match="refused"):
        await _in_time(CALLS[call](nowhere))


@pytest.mark.parametrize("how", ["async", "sync"])
async def test_r14_the_first_use_of_a_client_is_tried_again(
    far: Headway, proxy: Proxy, how: str
) -> None:
    proxy.refuse()
    before = proxy.accepted
    call = asyncio.create_task(CALLS["enqueue" if how == "async" else "enqueue_sync"](far))
    await eventually(lambda: proxy.accepted > before or call.done())
    proxy.accept()
    await _in_time(call)


@pytest.mark.parametrize("how", ["async", "sync"])
@pytest.mark.parametrize("fault", ["refuse", "black_hole", "strand"])
async def test_r14_the_time_for_a_result_bounds_a_database_that_is_away(
    far: Headway, proxy: Proxy, how: str, fault: str
) -> None:
    job = await far.tasks["echo"].enqueue(1)
    far._session.client.answer_within = 1000.0
    if how == "async":
        await job.status()
    else:
        await _sync(job.status_sync)
    getattr(proxy, fault)()
    with pytest.raises(ResultTimeout):
        await _in_time(job.result("1s") if how == "async" else _sync(job.result_sync, "1s"))
