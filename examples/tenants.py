"""Tenants take turns: one with hundreds of jobs does not hold up one with a single job, the other
system is asked no faster than it allows, and a schedule makes new work by itself.

python examples/tenants.py
"""

from __future__ import annotations

import asyncio

from headway import Context, Headway, Limit

hw = Headway()
order: list[str] = []


@hw.task(queue="sync", limit=Limit(concurrency=2, key=lambda tenant, **_: tenant))
async def sync_tenant(tenant: str, page: int) -> None:
    """At most two at a time of each tenant, in the whole fleet."""
    order.append(tenant)
    await asyncio.sleep(0.001)


@hw.task(limit=Limit(rate="100/s", burst=5))
async def ask_provider(question: int) -> int:
    return question * 2


@hw.task(schedule="@every 1s")
async def heartbeat(ctx: Context) -> str | None:
    return ctx.headers.get("occurrence")


async def main() -> None:
    await hw.migrate()
    async with hw:
        await sync_tenant.enqueue_many([{"tenant": "large", "page": n} for n in range(400)])
        small = await sync_tenant.enqueue("small", 1)
        asked = await ask_provider.enqueue_many([{"question": n} for n in range(50)])
        await hw.queues.limit("sync", concurrency=8)  # while everything runs
        worker = hw.worker(queues={"sync": 1, "default": 3}, concurrency=20)
        running = asyncio.create_task(worker.run())
        await small.result(timeout="30s")
        before = order.index("small")
        print(f"the small tenant ran behind {before} of 400 jobs of the large one")
        assert before < 100
        print("answers:", [await job.result(timeout="30s") for job in asked][-3:])
        while (status := await hw.schedules.get("heartbeat")) is None or status.last_job is None:
            await asyncio.sleep(0.05)
        print("the schedule fired for", await hw.job(status.last_job).result(timeout="30s"))
        worker.stop()
        await running


if __name__ == "__main__":
    asyncio.run(main())
