"""The first lines of a worker's log: which program, on which database, with what, and as whom."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from headway import Headway, __version__
from tests.support import Running, eventually


async def test_b2_f8_a_worker_names_its_version_place_tasks_and_id(
    hw: Headway, start: Callable[..., Running], schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    @hw.task(schedule="@every 1h")
    async def nightly() -> None: ...

    @hw.task
    async def add() -> None: ...

    order = hw.flow("order")

    @order.step
    async def pack() -> None: ...

    @order.step
    async def ship() -> None: ...

    place = hw._session.place
    with caplog.at_level(logging.INFO, "headway.worker"):
        running = start()
        worker = running.worker
        await eventually(lambda: f"registered as worker {worker.id}" in caplog.messages)
    assert caplog.messages[0] == (
        f"headway {__version__} on host {place.host}, port {place.port}, "
        f"database {place.database}, schema {schema}: 3 tasks and 1 schedule"
    )
    assert sum("registered as worker" in words for words in caplog.messages) == 1
