"""Which queues a worker serves, and how, by a file, the environment and code."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headway import Headway
from tests.sql.hand import Hand
from tests.support import Running, eventually

FILE = """
[worker]
queues = ["mail:3", "default", "reports=2", "*"]
order = "strict"
concurrency = 4
"""


@pytest.fixture
async def app(
    dsn: str, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Headway]:
    """An app in a directory with a file of settings."""
    for name in os.environ:
        if name.startswith("HEADWAY_") and not name.startswith("HEADWAY_TEST_"):
            monkeypatch.delenv(name)
    (tmp_path / "headway.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    app = Headway(dsn, schema=schema)

    @app.task(queue="default")
    async def task(queue: str) -> None: ...

    yield app
    await app.close()


async def _served(app: Headway, hand: Hand, **options: Any) -> tuple[list[str], int]:
    """The queues and the number of slots that a worker says it has."""
    running = Running(app.worker(**options))
    try:
        await eventually(lambda: hand.rows("select id from worker where expires_at > now()"))
        row = hand.row("select queues, slots from worker where expires_at > now()")
        return row["queues"], row["slots"]
    finally:
        await running.stop()


async def test_a_file_says_which_queues_and_with_which_slots(app: Headway, hand: Hand) -> None:
    assert await _served(app, hand) == (["mail", "default", "*", "reports"], 6)


async def test_code_goes_before_the_file_field_by_field(app: Headway, hand: Hand) -> None:
    assert await _served(app, hand, queues={"other": 1}, dedicated={}) == (["other"], 4)
    assert await _served(app, hand, queues={"other": 1}, dedicated={"own": 3}) == (
        ["other", "own"],
        7,
    )


async def test_the_environment_goes_before_the_file(
    app: Headway, hand: Hand, dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_WORKER__QUEUES", "reports=2")
    async with Headway(dsn, schema=schema) as other:

        @other.task
        async def task() -> None: ...

        assert await _served(other, hand) == (["reports"], 2), "what is named is served"


async def test_the_order_of_the_file_is_the_order_of_service(app: Headway, hand: Hand) -> None:
    ran: list[str] = []

    @app.task
    async def note(queue: str) -> None:
        ran.append(queue)
        await asyncio.sleep(0)

    for queue in ("another", "default", "mail"):
        await note.using(queue=queue).enqueue_many([{"queue": queue}] * 6)
    await app.run_until_idle()
    assert ran == ["mail"] * 6 + ["default"] * 6 + ["another"] * 6
