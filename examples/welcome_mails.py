"""Welcome mails: the user and the mail's job are committed together, and a mail is sent once a user.

python examples/welcome_mails.py
"""

from __future__ import annotations

import asyncio

import psycopg

from headway import Context, Headway, Retry

hw = Headway()
outbox: list[str] = []


@hw.task(
    queue="mail", retry=Retry(max_attempts=4, base="100ms"), unique=lambda user_id, **_: user_id
)
async def welcome(ctx: Context, user_id: str, email: str) -> str:
    """The mail provider is busy the first time."""
    if ctx.attempt == 1:
        raise ConnectionError("421 try again later")
    outbox.append(email)
    return f"sent to {email}"


async def sign_up(user_id: str, email: str, *, fails: bool = False) -> None:
    """One transaction: no user without a mail, no mail without a user."""
    async with await psycopg.AsyncConnection.connect(hw.dsn) as conn, conn.transaction():
        await conn.execute("insert into users values (%s, %s)", [user_id, email])
        await welcome.using(conn=conn).enqueue(user_id=user_id, email=email)
        if fails:
            raise psycopg.Rollback


async def main() -> None:
    await hw.migrate()
    async with hw:
        async with await psycopg.AsyncConnection.connect(hw.dsn, autocommit=True) as conn:
            await conn.execute("create table if not exists users (id text, email text)")
        await sign_up("ada", "ada@example.com")
        await sign_up("bob", "bob@example.com", fails=True)
        second = await welcome.enqueue(user_id="ada", email="ada@example.com")
        print("a second mail for ada was made:", second.created)
        print("ada's job:", await _run(second))
        assert outbox == ["ada@example.com"], outbox
        print("mails sent:", outbox)


async def _run(job) -> str:
    worker = hw.worker(queues={"mail": 1})
    running = asyncio.create_task(worker.run())
    result = await job.result(timeout="60s")
    worker.stop()
    await running
    return result


if __name__ == "__main__":
    asyncio.run(main())
