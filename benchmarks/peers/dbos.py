"""dbos: a workflow of five steps, on a queue of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from benchmarks.measure import Meter, Reading

_CONCURRENCY = 50


async def run(dsn: str, count: int) -> Reading:
    """Enqueues `count` workflows and measures until the last is done: dbos has no backlog to begin
    with, its queue runs as soon as it is filled."""
    return await asyncio.to_thread(_run, dsn, count)


def _run(dsn: str, count: int) -> Reading:
    from dbos import DBOS

    DBOS.destroy()
    config: Any = {"name": "bench", "system_database_url": _url(dsn), "run_admin_server": False}
    DBOS(config=config)

    @DBOS.step()
    def step(n: int) -> int:
        return n + 1

    @DBOS.workflow()
    def five(n: int) -> int:
        for _ in range(5):
            n = step(n)
        return n

    DBOS.launch()
    queue = DBOS.register_queue("bench", worker_concurrency=_CONCURRENCY, polling_interval_sec=0.05)
    meter = Meter(dsn)
    meter.start()
    for handle in [queue.enqueue(five, n) for n in range(count)]:
        handle.get_result(polling_interval_sec=0.05)
    reading = meter.stop(count)
    meter.close()
    DBOS.destroy()
    return reading


def _url(dsn: str) -> str:
    """The same place as a URL, which is all that it takes; the database is one of its own."""
    parts = conninfo_to_dict(dsn)
    host = f"?host={parts['host']}&port={parts.get('port', 5432)}"
    return f"postgresql://{parts.get('user', 'postgres')}@/{parts['dbname']}_dbos{host}"
