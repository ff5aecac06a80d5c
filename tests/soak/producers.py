"""Producers: calls of every task, at random, for as long as the soak lasts; and what they were told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg

from headway.errors import (
    DatabaseUnavailable,
    HeadwayError,
    JobCancelled,
    JobFailed,
    JobNotFound,
    ResultTimeout,
)
from headway.job import Job
from tests.soak.ledger import Ledger
from tests.soak.world import World

SHOPS = ("north", "south", "west")
_MOST_LIVE = 1500
"""With more live jobs than this, producers rest: the fleet is behind."""


class Producers:
    """Enqueue and cancel, and write into the ledger what came of it."""

    def __init__(self, world: World, chance: random.Random) -> None:
        from tests.soak import app

        self._app = app
        self._world = world
        self._ledger: Ledger = world.ledger
        self._chance = chance
        self._rest = False
        self._done = False
        self._kinds: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (20, self._echo),
            (10, self._plain),
            (6, self._flow),
            (6, self._pay),
            (6, self._keyed),
            (4, self._unkept),
            (4, self._in_transaction),
            (4, self._cancelled),
            (4, self._gathered),
            (2, self._many),
            (1, self._awaited_failure),
        ]

    async def run(self) -> None:
        """Produce until told to stop."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            for account in range(3):
                group.create_task(self._book(account))
            for slot in self._world.slots:
                group.create_task(self._pulse(slot.queue))
            for _ in range(4):
                group.create_task(self._produce())

    def stop(self) -> None:
        self._done = True

    async def close(self) -> None:
        """Close the connections of the producers."""
        await self._app.hw.close()

    async def _produce(self) -> None:
        weights = [weight for weight, _ in self._kinds]
        while not self._done:
            if not self._rest:
                (kind,) = self._chance.choices(self._kinds, weights)
                await self._guarded(kind[1]())
            await asyncio.sleep(self._chance.random() / 4)

    async def _guarded(self, call: Awaitable[Any]) -> Any:
        """A fault may strike any call; only what was acknowledged counts."""
        try:
            return await call
        except (DatabaseUnavailable, psycopg.OperationalError, ResultTimeout):
            return None
        except (HeadwayError, psycopg.Error) as error:
            self._ledger.wrong.append(f"a producer was told {type(error).__name__}: {error}")
            return None

    async def _enqueue(self, task: str, **arguments: Any) -> Job[Any]:
        using = arguments.pop("using", {})
        n = self._ledger.call(task)
        job = await self._app.hw.tasks[task].using(**using).enqueue(n=n, **arguments)
        if job.created:
            self._ledger.made[job.id] = task
        return job

    # -- kinds of calls ---------------------------------------------------------------------------

    async def _echo(self) -> None:
        using = {"priority": self._chance.choice((-1, 0, 0, 5))}
        if self._chance.random() < 0.2:
            using["delay"] = self._chance.random() * 3
        n = self._ledger.call("echo")
        job = await self._app.echo.using(**using).enqueue(n, self._chance.random() / 20)
        self._ledger.made[job.id] = "echo"
        if self._chance.random() < 0.3 and (value := await job.result(timeout="20s")) != n:
            self._ledger.wrong.append(f"the result of {job.id} is {value!r}, not {n}")

    async def _plain(self) -> None:
        match self._chance.choice(("thread", "crunch", "nap", "hasty", "flaky", "linger")):
            case "flaky":
                await self._enqueue("flaky", fails=self._chance.randrange(4))
            case "linger":
                await self._enqueue("linger", seconds=self._chance.random() * 6)
            case task:
                await self._enqueue(task)

    async def _flow(self) -> None:
        if self._chance.random() < 0.6:
            await self._enqueue("order", shop=self._chance.choice(SHOPS))
        else:
            await self._enqueue("parcel")

    async def _pay(self) -> None:
        await self._enqueue(self._chance.choice(("pay", "pay_in_thread")))

    async def _keyed(self) -> None:
        match self._chance.choice(("shared", "narrow", "tenant", "tenant", "once", "daily")):
            case "shared":
                await self._enqueue("shared", shop=self._chance.choice(SHOPS))
            case "tenant":
                await self._enqueue("tenant", tenant=self._chance.choice(("large", "small")))
            case "narrow":
                await self._enqueue("narrow")
            case task:
                most = 5 if task == "once" else 40
                job = await self._enqueue(task, user=f"user-{self._chance.randrange(most)}")
                if not job.created and job.id not in self._ledger.made:
                    self._ledger.made.setdefault(job.id, task)

    async def _unkept(self) -> None:
        task = self._chance.choice(("unkept", "unkept_payment"))
        n = self._ledger.call(task)
        await self._app.hw.tasks[task].enqueue(n=n)
        self._ledger.unkept.add(n)

    async def _gathered(self) -> None:
        task = self._app.hw.tasks["gather"]
        numbers = [self._ledger.call("gather") for _ in range(self._chance.randrange(1, 12))]
        for job in await task.enqueue_many([{"numbers": n} for n in numbers]):
            self._ledger.made[job.id] = "gather"

    async def _many(self) -> None:
        numbers = [self._ledger.call("echo") for _ in range(self._chance.randrange(1, 120))]
        jobs = await self._app.echo.enqueue_many([{"n": n} for n in numbers])
        self._ledger.made.update((job.id, "echo") for job in jobs)

    async def _in_transaction(self) -> None:
        """The job and the row `paid` are there together, or not at all."""
        await asyncio.sleep(self._chance.random() / 10)
        dsn = self._world.client.dsn if self._chance.random() < 0.5 else self._world.dsn
        conn = await psycopg.AsyncConnection.connect(dsn, connect_timeout=5)
        task, n = self._app.echo, self._ledger.call("echo")
        self._ledger.in_transaction.add(n)
        async with conn:
            job = await task.using(conn=conn).enqueue(n=n)
            await conn.execute('insert into "soak".paid values (%s)', (job.id,))
            await asyncio.sleep(self._chance.random() / 5)
            if self._chance.random() < 0.4:
                await conn.rollback()

    async def _cancelled(self) -> None:
        match self._chance.randrange(3):
            case 0:
                job = await self._enqueue("echo", using={"delay": "1h"})
                self._ledger.late.add(job.id)
                await asyncio.sleep(self._chance.random())
            case 1:
                job = await self._enqueue("linger", seconds=5)
                await asyncio.sleep(self._chance.random() * 3)
            case _:
                job = await self._enqueue("order", shop=self._chance.choice(SHOPS))
                await asyncio.sleep(self._chance.random() / 3)
        self._ledger.cancels.add(job.id)
        await job.cancel()

    async def _awaited_failure(self) -> None:
        job = await self._enqueue("doomed")
        try:
            value = await job.result(timeout="20s")
        except JobFailed:
            return
        except (JobCancelled, JobNotFound) as error:
            self._ledger.wrong.append(f"result() of {job.id} raised {error!r}")
            return
        self._ledger.wrong.append(f"{job.id} was doomed and returned {value!r}")

    # -- one after the other ----------------------------------------------------------------------

    async def _book(self, account: int) -> None:
        order = self._ledger.order.setdefault(account, [])
        while not self._done:
            if not self._rest:
                job = await self._guarded(self._enqueue("book", account=account))
                if job is not None:
                    order.append(job.id)
            await asyncio.sleep(self._chance.random())

    async def _pulse(self, queue: str) -> None:
        while not self._done:
            await self._guarded(self._enqueue("pulse", using={"queue": queue, "priority": 10}))
            await asyncio.sleep(1)

    async def _watch(self) -> None:
        while not self._done:
            try:
                self._rest = await self._world.live() > _MOST_LIVE
            except psycopg.OperationalError:
                self._rest = True
            await asyncio.sleep(1)
