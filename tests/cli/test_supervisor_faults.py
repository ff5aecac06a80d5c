"""The supervisor and workers that do not live or will not die."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import pytest

from headway.engine import supervisor
from headway.engine.supervisor import Supervisor
from tests.support import eventually

_IGNORES = (
    "import pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "pathlib.Path({place!r}).touch(); time.sleep(600)"
)


async def test_quick_deaths_are_met_with_ever_longer_pauses(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(supervisor, "_LONGEST_PAUSE", 0.04)
    caplog.set_level(logging.INFO, "headway.supervisor")
    failing = Supervisor(lambda *_: [sys.executable, "-S", "-c", "raise SystemExit(5)"], 1, grace=0)
    running = asyncio.create_task(failing.run())

    def pauses() -> list[float]:
        deaths = [record for record in caplog.records if record.levelno == logging.ERROR]
        return [record.args[3] for record in deaths if isinstance(record.args, tuple)]  # type: ignore[misc]

    await eventually(lambda: len(pauses()) >= 4)
    failing.stop()
    assert await running in (0, 1)
    assert pauses()[:4] == [0.01, 0.02, 0.04, 0.04]
    assert "ended with exit code 5" in caplog.text


async def test_a_stop_does_not_wait_for_a_pause(caplog: pytest.LogCaptureFixture) -> None:
    failing = Supervisor(lambda *_: [sys.executable, "-S", "-c", "raise SystemExit(5)"], 1, grace=0)
    running = asyncio.create_task(failing.run())
    await eventually(lambda: "starting another in 0.5 s" in caplog.text)
    failing.stop()
    assert await running == 0


async def test_a_worker_that_will_not_drain_is_killed_and_the_exit_code_is_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervisor, "_AFTER_GRACE", 0.05)
    began = tmp_path / "began"
    code = _IGNORES.format(place=str(began))
    stubborn = Supervisor(lambda *_: [sys.executable, "-S", "-c", code], 1, grace=0.05)
    running = asyncio.create_task(stubborn.run())
    await eventually(began.exists)
    stubborn.stop()
    assert await running == 1


def test_a_long_life_is_followed_at_once() -> None:
    assert supervisor._next_pause(30.0, lived=11.0) == 0.0
