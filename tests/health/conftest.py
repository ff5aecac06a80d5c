"""Workers in this process that answer on a port of their own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.health.ask import port_said
from tests.support import Running


@pytest.fixture
def observed(
    start: Callable[..., Running], caplog: pytest.LogCaptureFixture
) -> Callable[..., tuple[Running, Callable[[], int | None]]]:
    """Starts a worker that can be asked; gives it, and where it answers once it does."""

    def observed(**options: Any) -> tuple[Running, Callable[[], int | None]]:
        caplog.set_level(logging.INFO, "headway.worker")
        running = start(**({"health": "127.0.0.1:0"} | options))
        return running, lambda: port_said(caplog.text)

    return observed
