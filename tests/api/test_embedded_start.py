"""An embedded server is started in a thread: its start does not hold up the event loop."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from headway import Headway
from headway.errors import EmbeddedUnavailable

CALLS: dict[str, Callable[[Headway], Awaitable[Any]]] = {
    "status": lambda hw: hw.job(uuid4()).status(),
    "history": lambda hw: hw.job(uuid4()).history(),
    "cancel": lambda hw: hw.job(uuid4()).cancel(),
    "retry": lambda hw: hw.job(uuid4()).retry(),
    "edit": lambda hw: hw.job(uuid4()).edit({}, check=False),
    "result": lambda hw: hw.job(uuid4()).result(timeout="1s"),
    "queues.list": lambda hw: hw.queues.list(),
    "queues.metrics": lambda hw: hw.queues.metrics(),
    "workers.drain": lambda hw: hw.workers.drain(1),
    "workers.overview": lambda hw: hw.workers.overview(),
    "jobs.list": lambda hw: hw.jobs.list(),
    "jobs.retry": lambda hw: hw.jobs.retry([uuid4()]),
    "queues.waiting": lambda hw: hw.queues.waiting("q"),
    "queues.purge": lambda hw: hw.queues.purge("q"),
    "queues.move": lambda hw: hw.queues.move("q", "p"),
    "queues.drain": lambda hw: hw.queues.drain("q"),
    "controls.list": lambda hw: hw.controls.list(),
    "controls.pause": lambda hw: hw.controls.pause(queue="q"),
    "controls.resume": lambda hw: hw.controls.resume(queue="q"),
    "controls.limit": lambda hw: hw.controls.limit(queue="q", concurrency=1),
    "controls.reset": lambda hw: hw.controls.reset(queue="q"),
    "schedules.list": lambda hw: hw.schedules.list(),
    "schedules.resume": lambda hw: hw.schedules.resume("s"),
}


@pytest.mark.parametrize("call", CALLS)
async def test_r14_no_call_starts_an_embedded_server_on_the_event_loop(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started_in: list[threading.Thread] = []

    def start(*_: Any, **__: Any) -> None:
        started_in.append(threading.current_thread())
        raise EmbeddedUnavailable("only its thread matters here")

    monkeypatch.setattr("headway._api.session.embedded.start", start)
    hw = Headway(local=tmp_path)
    with pytest.raises(EmbeddedUnavailable):
        await CALLS[call](hw)
    assert threading.main_thread() not in started_in
    assert len(started_in) == 1
