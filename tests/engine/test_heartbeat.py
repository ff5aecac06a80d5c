"""The heartbeat: a worker learns about its lease and its running jobs, from the database alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from headway import Headway
from headway.store.connections.engine_connection import EngineConnection
from tests.support import Running, eventually


async def test_h5_one_heartbeat_finds_a_cancel_without_notifications(
    hw: Headway, start: Callable[..., Running]
) -> None:
    """This holds for a job that began after the previous heartbeat: a third of the lease, not two."""
    began = asyncio.Event()

    @hw.task
    async def long() -> None:
        began.set()
        await asyncio.Event().wait()

    worker = start(listen=False, lease="1h").worker
    job = await long.enqueue()
    await asyncio.wait_for(began.wait(), 60)
    await job.cancel()
    worker._running.stops._all_checked_at -= 3600  # a third of the lease has passed
    worker._running.stops.wake()

    async def ended() -> bool:
        return (await job.status()).state == "cancelled"

    await eventually(ended)


async def test_h3_every_connection_of_a_worker_is_cut_when_it_reconnects(
    hw: Headway, start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the one that reconnected: that of the heartbeat."""
    cut = list[EngineConnection]()
    monkeypatch.setattr(EngineConnection, "cut", lambda self: cut.append(self))

    @hw.task
    async def task() -> None: ...

    worker = start().worker
    await eventually(lambda: worker.id)
    worker.reconnect(moved=True)
    seen = set[int]()

    def connections(holder: object) -> Iterator[EngineConnection]:
        """Find the connections that the parts of the worker hold."""
        if isinstance(holder, EngineConnection):
            yield holder
        elif id(holder) not in seen and type(holder).__module__.startswith("headway.engine"):
            seen.add(id(holder))
            slots = [getattr(holder, name, None) for name in getattr(holder, "__slots__", ())]
            for part in [*vars(holder).values(), *slots] if hasattr(holder, "__dict__") else slots:
                yield from connections(part)

    held = set(connections(worker)) - {worker._upkeep.heartbeat._link}
    assert len(held) >= 4
    assert held == set(cut)
