"""An outbox: what is to be told to another system is a job, made in the transaction that changed
something, and told in the order in which it happened, one at a time for each customer.

python examples/outbox.py
"""

from __future__ import annotations

import asyncio
import random

import psycopg

from headway import Context, Headway, Key, Retry

hw = Headway()
told: dict[str, list[int]] = {}


@hw.task(
    queue="outbox",
    concurrency_key=Key(lambda customer, **_: f"customer-{customer}", ordered=True),
    retry=Retry(max_attempts=5, base="20ms"),
)
async def tell(ctx: Context, customer: str, balance: int) -> None:
    """The other system fails now and then; what comes after waits for it."""
    if ctx.attempt == 1 and random.random() < 0.3:
        raise ConnectionError("503")
    told.setdefault(customer, []).append(balance)


@hw.task(transaction=True)
async def book(ctx: Context, customer: str, amount: int) -> int:
    """Change the balance and send a notice: both commit with this job's success, or neither."""
    row = await (
        await ctx.conn.execute(
            "update balance set amount = amount + %s where customer = %s returning amount",
            [amount, customer],
        )
    ).fetchone()
    await tell.using(conn=ctx.conn).enqueue(customer=customer, balance=row[0])
    return row[0]


async def main() -> None:
    await hw.migrate()
    async with hw:
        async with await psycopg.AsyncConnection.connect(hw.dsn, autocommit=True) as conn:
            await conn.execute("create table if not exists balance (customer text, amount int)")
            await conn.execute("truncate balance")
            await conn.execute("insert into balance values ('ada', 0), ('bob', 0)")
        await book.enqueue_many(
            [{"customer": name, "amount": 10} for name in ("ada", "bob") for _ in range(20)]
        )
        worker = hw.worker()
        running = asyncio.create_task(worker.run())
        while sum(map(len, told.values())) < 40:
            await asyncio.sleep(0.05)
        worker.stop()
        await running
    for customer, balances in sorted(told.items()):
        print(customer, balances)
        assert balances == [10 * n for n in range(1, 21)], "told once each, in order"


if __name__ == "__main__":
    asyncio.run(main())
