"""Python and SQL on one queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from headway import Context, Headway, Key
from tests.support import DEADLINE, Running, eventually

Start = Callable[..., Running]


async def test_a_python_worker_runs_what_sql_made(
    hw: Headway, start: Start, db: psycopg.Connection[Any]
) -> None:
    ran = asyncio.Event()
    seen: list[object] = []

    @hw.task(name="greet", queue="mail", priority=3)
    async def greet(ctx: Context, name: str) -> str:
        seen.append((name, dict(ctx.headers)))
        ran.set()
        return f"Hello {name}"

    running = start()
    # The worker's declaration of its tasks fills in what the producer leaves open.
    await eventually(lambda: db.execute("select 1 from task where name = 'greet'").fetchone())
    made = db.execute(
        "select enqueue('greet', %s, headers => %s)", (Jsonb({"name": "Ada"}), Jsonb({"a": "b"}))
    ).fetchone()
    assert made is not None
    async with asyncio.timeout(DEADLINE):
        await ran.wait()
    await running.stop()
    assert seen == [("Ada", {"a": "b"})]
    row = db.execute(
        "select queue, priority, state, result from jobs where id = %s", made
    ).fetchone()
    assert row == ("mail", 3, "succeeded", "Hello Ada")


async def test_sql_runs_what_python_made(hw: Headway, db: psycopg.Connection[Any]) -> None:
    @hw.task(queue="elsewhere")
    async def shrink(path: str) -> dict[str, int]:
        raise AssertionError("it runs in another language")

    job = await shrink.enqueue("a.png")
    db.row_factory = dict_row  # type: ignore[assignment]
    claimed: Any = db.execute("select * from claim('elsewhere')").fetchone()
    assert (claimed["id"], claimed["task"], claimed["input"]) == (
        job.id,
        "shrink",
        {"path": "a.png"},
    )
    db.execute("select complete(%s, %s, %s)", (job.id, claimed["claim"], Jsonb({"bytes": 9})))
    assert await job.result(timeout=DEADLINE) == {"bytes": 9}


async def test_a_flow_goes_from_python_to_sql_and_back(
    hw: Headway, start: Start, db: psycopg.Connection[Any]
) -> None:
    flow = hw.flow("order", queue="orders")

    @flow.step
    async def reserve(order: int) -> Any:
        return ship.next(box=order)

    @flow.step(queue="vans")
    async def ship(box: int) -> Any:
        raise AssertionError("it runs in another language")

    @flow.step
    async def bill(parcel: str) -> str:
        return f"billed {parcel}"

    running = start(queues={"orders": 1})
    await eventually(lambda: db.execute("select 1 from task where name = 'order'").fetchone())
    (job_id,) = db.execute("select enqueue('order', %s)", (Jsonb({"order": 42}),)).fetchone() or ()

    def shipped() -> Any:
        return db.execute(
            "select id, claim, step, input from claim('vans', lease => '1 hour')"
        ).fetchone()

    claimed_id, claim, step, given = await eventually(shipped)
    assert (claimed_id, step, given) == (job_id, "ship", {"box": 42})
    arguments = (job_id, claim, Jsonb({"parcel": "A1"}))
    assert db.execute("select advance(%s, %s, 'bill', %s)", arguments).fetchone() == (True,)
    result = "select result from jobs where id = %s and state = 'succeeded'"
    assert await eventually(lambda: db.execute(result, (job_id,)).fetchone()) == ("billed A1",)
    await running.stop()


async def test_room_that_sql_frees_goes_to_the_next_of_python(
    hw: Headway, start: Start, db: psycopg.Connection[Any]
) -> None:
    ran = asyncio.Event()

    @hw.task(queue="here", concurrency_key=Key("printer"))
    async def print_here() -> None:
        ran.set()

    db.execute("select enqueue('print', queue => 'there', concurrency_key => 'printer')")
    db.execute("select sweep()")
    claimed = db.execute("select id, claim from claim('there', lease => '1 hour')").fetchone()
    assert claimed is not None
    job = await print_here.enqueue()
    running = start()
    await eventually(lambda: db.execute("select 1 from leader where expires_at > now()").fetchone())
    assert not ran.is_set()
    assert (await job.status()).state == "blocked"
    db.execute("select complete(%s, %s)", claimed)
    async with asyncio.timeout(DEADLINE):
        await ran.wait()
    await running.stop()
