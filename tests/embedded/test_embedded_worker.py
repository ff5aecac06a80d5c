"""A worker on an embedded server that was killed."""

from __future__ import annotations

import os
import signal

import pytest
from tests.support import DEADLINE, Running, eventually

from headway import Headway

pytestmark = [pytest.mark.embedded_only, pytest.mark.timeout(120)]


async def test_s22_a_worker_starts_its_killed_server_again(root, watch, monkeypatch, tmp_path):
    monkeypatch.delenv("HEADWAY_DATABASE_URL", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    hw = Headway()

    @hw.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with hw:
        dsn = hw.dsn
        running = Running(hw.worker(grace="1s"))
        assert await (await add.enqueue(1, 2)).result(timeout=DEADLINE) == 3
        killed = watch.postmaster()
        monkeypatch.chdir("/")  # where the server is does not depend on where the process is now
        os.kill(killed, signal.SIGKILL)
        watch.wait_until_stopped()
        await eventually(lambda: _postmaster(watch) not in (None, killed))
        assert await (await add.enqueue(3, 4)).result(timeout=DEADLINE) == 7
        assert hw.dsn == dsn
        await running.stop()
    watch.wait_until_stopped()
    assert _postmaster(watch) is None, "it ended with its last client"


def _postmaster(watch) -> int | None:
    try:
        return watch.postmaster()
    except (OSError, IndexError, ValueError):
        return None
