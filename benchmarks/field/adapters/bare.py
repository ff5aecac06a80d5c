"""Bare SQL by psycopg: the shortest INSERT, COPY, claim and update, and NOTIFY that do the job.

The table has the columns of Headway's `job` and the two indexes that no queue can do without: the id
and what is ready. There is no fence, no retry, no lease and no limit.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import uuid
from contextlib import suppress
from typing import Any

import psycopg
import uvloop
from protocol import CONCURRENCY, DSN, Payload, called, main

_CHANNEL = "bare"
_NOTIFIES = os.environ.get("BENCH_NOTIFY") == "1"
_INSERT = """
insert into bare.job (id, run_at, created_at, max_attempts, priority, state, queue, task, input)
values (%s, now(), now(), 20, 0, 'r', 'default', 'noop', %s)"""
_INSERT_AND_NOTIFY = f"""
with made as ({_INSERT} returning 1) select pg_notify('{_CHANNEL}', '') from made"""
_CLAIM = """
update bare.job set state = 'x', attempt = attempt + 1
where ctid = any(array(select ctid from bare.job where state = 'r' order by queue, priority, seq
                       limit %s for no key update skip locked))
returning id, input"""
_FINISH = "update bare.job set state = 'd', progress = '1' where id = any(%s)"


async def setup() -> None:
    import headway

    await headway.Headway(DSN).migrate()
    async with await psycopg.AsyncConnection.connect(DSN, autocommit=True) as conn:
        await conn.execute("create schema bare")
        await conn.execute("create table bare.job (like headway.job including defaults)")
        await conn.execute("alter table bare.job add primary key (id)")
        await conn.execute("create index on bare.job (queue, priority, seq) where state = 'r'")


class Producers:
    """An idle connection for each enqueue under way, with its statement prepared."""

    def __init__(self) -> None:
        self._idle: list[Any] = []

    async def enqueue(self, payload: Payload) -> None:
        cursor = self._idle.pop() if self._idle else await self._open()
        query = _INSERT_AND_NOTIFY if _NOTIFIES else _INSERT
        await cursor.execute(query, (uuid.uuid4(), json.dumps(payload)))
        self._idle.append(cursor)

    async def _open(self) -> Any:
        conn = await psycopg.AsyncConnection.connect(DSN, autocommit=True)
        conn.prepare_threshold = 0
        return conn.cursor()

    async def enqueue_many(self, payloads: list[Payload]) -> None:
        cursor = self._idle.pop() if self._idle else await self._open()
        columns = "id, run_at, created_at, max_attempts, priority, state, queue, task, input"
        now = "2026-01-01T00:00:00Z"
        async with cursor.copy(f"copy bare.job ({columns}) from stdin") as copy:
            await copy.write(
                "".join(
                    f"{uuid.uuid4()}\t{now}\t{now}\t20\t0\tr\tdefault\tnoop\t{json.dumps(payload)}\n"
                    for payload in payloads
                )
            )
        self._idle.append(cursor)


async def noop(n: int, t: float | None = None) -> int:
    called(t)
    return n


async def work() -> None:
    """Claim, run, finish, claim; when nothing is ready, wait for a notification."""
    conn = await psycopg.AsyncConnection.connect(DSN, autocommit=True)
    conn.prepare_threshold = 0
    listener = await psycopg.AsyncConnection.connect(DSN, autocommit=True)
    await listener.execute(f"listen {_CHANNEL}")
    heard = asyncio.Event()

    async def listen() -> None:
        async for _ in listener.notifies():
            heard.set()

    listening = asyncio.create_task(listen())
    cursor = conn.cursor()
    for _ in itertools.count():
        heard.clear()
        claimed = await (await cursor.execute(_CLAIM, (CONCURRENCY,))).fetchall()
        if not claimed:
            with suppress(TimeoutError):
                await asyncio.wait_for(heard.wait(), 1)
            continue
        tasks = [asyncio.create_task(noop(**arguments)) for _, arguments in claimed]
        await asyncio.gather(*tasks)
        await cursor.execute(_FINISH, ([job_id for job_id, _ in claimed],))
    listening.cancel()


producers = Producers()
uvloop.run(
    main(
        setup=setup,
        enqueue=producers.enqueue,
        enqueue_many=producers.enqueue_many,
        work=work,
    )
)
