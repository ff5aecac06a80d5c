"""An enqueue that is cancelled in the middle leaves its connection in order for the next caller."""

from __future__ import annotations

import asyncio

import pytest

from headway import Headway
from headway.store.connections.prepared import PREPARE_AFTER
from tests.crash.proxy import Proxy, opening
from tests.crash.tasks import register
from tests.support import eventually


async def test_an_enqueue_cancelled_while_its_statement_is_prepared_harms_no_other(
    proxy: Proxy, schema: str, app: Headway
) -> None:
    """The server has prepared the statement. The caller has left before the answer."""
    far = register(Headway(proxy.dsn, schema=schema))
    echo = far.tasks["echo"]
    for n in range(PREPARE_AFTER + 1):  # the first opens the pool and takes another path
        await echo.enqueue(n)
    held = proxy.hold_reply(opening("writes/enqueue_one", schema), preparing=True)
    enqueuing = asyncio.create_task(echo.enqueue(7))
    await eventually(held.answered.is_set)
    enqueuing.cancel()
    await asyncio.sleep(0)
    proxy.release(held)
    with pytest.raises(asyncio.CancelledError):
        await enqueuing
    job = await echo.enqueue(8)
    assert (await app.job(job.id).status()).state == "ready"
    await far.close()
    far.close_sync()
