"""The tasks of the histories, each with what must become of its jobs."""

from __future__ import annotations

from typing import Any

from headway import Context, Job, Key, Limit, Next, Retry
from headway.store.rows import Lane
from tests.scripted.history import Expected, Setup
from tests.scripted.stage import Stage

AT_ONCE = Retry(max_attempts=20, backoff="constant", base=0, jitter=0)
_REFUSED = 13
KINDS = (
    "plain",
    "refused",
    "stopped",
    "again",
    "flow",
    "keyed",
    "ordered",
    "limited",
    "booked",
)
"""The kinds of jobs that there are."""


class Cast:
    """Defines the tasks on the app of a stage, and makes their jobs."""

    def __init__(self, stage: Stage, *, limits: bool) -> None:
        self.kinds = [kind for kind in KINDS if limits or kind != "limited"]
        """The kinds of jobs that its worker serves."""
        self._stage = stage
        hw, db = stage.hw, stage.db
        self.to_stop = set[str]()
        """Jobs that somebody asks to stop as soon as their handler has started."""
        db.execute(f"alter table archive add constraint picky check (result <> '{_REFUSED}')")
        db.execute("create table effect (job_id uuid)")

        @hw.task
        async def plain(ctx: Context, n: int) -> int:
            await stage.handle(ctx)
            return n

        @hw.task(retry=AT_ONCE)
        async def again(ctx: Context) -> None:
            await stage.handle(ctx)
            if ctx.attempt == 1:
                raise ValueError("not at the first attempt")

        flow = hw.flow("flow")

        @flow.step
        async def one(ctx: Context) -> Next:
            await stage.handle(ctx)
            return two.next()

        @flow.step
        async def two(ctx: Context) -> None:
            await stage.handle(ctx)

        @hw.task(concurrency_key=Key("k", limit=1))
        async def keyed(ctx: Context) -> None:
            await stage.handle(ctx)

        @hw.task(concurrency_key=Key("o", limit=1, ordered=True))
        async def ordered(ctx: Context) -> None:
            await stage.handle(ctx)

        @hw.task(limit=Limit(concurrency=1) if limits else None)
        async def limited(ctx: Context) -> None:
            await stage.handle(ctx)

        insert = f"insert into {hw._session.schema}.effect values (%s)"

        @hw.task(transaction=True, retry=AT_ONCE)
        async def booked(ctx: Context) -> None:
            done = ctx.conn.execute(insert, [ctx.job_id])
            await stage.wire.aside(done)
            await stage.handle(ctx)

        self._plain, self._again, self._flow, self._keyed = plain, again, flow, keyed
        self._ordered, self._limited, self._booked = ordered, limited, booked

    def setup(self, *kinds: str) -> Setup:
        """Return what makes a job of each of these kinds."""

        async def setup(stage: Stage) -> list[Expected]:
            return [await getattr(self, kind)() for kind in kinds]

        return setup

    async def plain(self, n: int = 1) -> Expected:
        return Expected(_id(await self._plain.enqueue(n)))

    async def refused(self) -> Expected:
        """A job whose success the server refuses to store."""
        return Expected(_id(await self._plain.enqueue(_REFUSED)), states=("failed",))

    async def stopped(self) -> Expected:
        """A job that somebody asks to stop when it has started."""
        job = await self._plain.enqueue(2)
        self.to_stop.add(_id(job))
        self._stage.on_start = self._stop
        return Expected(_id(job), states=("cancelled", "succeeded"))

    async def beside_nonsense(self) -> Expected:
        """A job whose attempts end just when somebody speaks of a lane that no server can have. Its retry
        goes with the claim: a verdict that ends a job would go in parallel."""
        planner = self._stage.worker._claiming.planner
        self._stage.on_end = lambda: planner.hint(Lane("default", 99_999))
        return await self.again()

    async def again(self) -> Expected:
        return Expected(_id(await self._again.enqueue()), runs=2)

    async def flow(self) -> Expected:
        return Expected(_id(await self._flow.enqueue()))

    async def keyed(self) -> Expected:
        return Expected(_id(await self._keyed.enqueue()))

    async def ordered(self) -> Expected:
        return Expected(_id(await self._ordered.enqueue()))

    async def limited(self) -> Expected:
        return Expected(_id(await self._limited.enqueue()))

    async def booked(self) -> Expected:
        """A job that settles itself. If its commit is lost it runs again; its effect is there once."""
        return Expected(_id(await self._booked.enqueue()), runs=None)

    def effects(self) -> list[tuple[Any, ...]]:
        """Return how often the effect of each job is there, but for those of which it is there once."""
        count = "select job_id, count(*) from effect group by 1 having count(*) <> 1"
        return self._stage.db.execute(count).fetchall()

    async def _stop(self, job: str) -> None:
        if job in self.to_stop:
            await self._stage.wire.aside(self._stage.hw.job(job).cancel())
            self._stage.worker._running.stops.hint(job)


def _id(job: Job[Any]) -> str:
    return str(job.id)
