"""dbos: workflows on a queue; async workflows, the shortest polling its docs suggest."""

from __future__ import annotations

import asyncio
from typing import Any

from dbos import DBOS, DBOSClient
from protocol import CONCURRENCY, URL, Payload, called, main

_OPTIONS: Any = {"queue_name": "bench", "workflow_name": "noop"}
_FLOW: Any = {"queue_name": "bench", "workflow_name": "five"}
client = DBOSClient(system_database_url=URL)


async def enqueue(payload: Payload) -> None:
    await client.enqueue_async(_OPTIONS, payload["n"], payload.get("t"))


async def enqueue_many(payloads: list[Payload]) -> None:
    for payload in payloads:  # it has no call for several
        await enqueue(payload)


async def enqueue_flow(payload: Payload) -> None:
    await client.enqueue_async(_FLOW, payload["n"])


def launch() -> None:
    config: Any = {"name": "bench", "system_database_url": URL, "run_admin_server": False}
    DBOS(config=config)

    @DBOS.workflow(name="noop")
    async def noop(n: int, t: float | None = None) -> int:
        called(t)
        return n

    @DBOS.step()
    async def step(n: int) -> int:
        return n + 1

    @DBOS.workflow(name="five")
    async def five(n: int) -> int:
        for _ in range(5):
            n = await step(n)
        called()
        return n

    DBOS.launch()
    DBOS.register_queue("bench", worker_concurrency=CONCURRENCY, polling_interval_sec=0.05)


async def setup() -> None:
    await asyncio.to_thread(launch)
    DBOS.destroy()


async def work() -> None:
    await asyncio.to_thread(launch)
    await asyncio.Event().wait()


asyncio.run(
    main(
        setup=setup,
        enqueue=enqueue,
        enqueue_many=enqueue_many,
        enqueue_flow=enqueue_flow,
        work=work,
    )
)
