"""The supervisor alone, with processes that are no workers."""

import asyncio
import sys

from headway.engine.supervisor import Supervisor
from tests.support import DEADLINE, eventually


async def test_g11_a_worker_that_dies_of_the_stop_before_it_handles_signals_has_drained() -> None:
    """It was still importing the app, so it held no job."""
    supervisor = Supervisor(
        lambda leash, number: [sys.executable, "-c", "import time; time.sleep(600)"], 1, grace=60.0
    )
    running = asyncio.create_task(supervisor.run())
    await eventually(lambda: supervisor._workers)
    supervisor.stop()
    assert await asyncio.wait_for(running, DEADLINE) == 0
