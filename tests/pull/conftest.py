from __future__ import annotations

import asyncio

import pytest

from headway.engine.notify.ready import ReadyListener


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when a consumer found nothing and waits for news."""
    waits, wait = asyncio.Event(), ReadyListener.wait

    async def wait_aloud(news: asyncio.Event, most: float) -> None:
        waits.set()
        await wait(news, most)

    monkeypatch.setattr(ReadyListener, "wait", staticmethod(wait_aloud))
    return waits
