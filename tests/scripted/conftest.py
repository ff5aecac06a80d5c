"""A worker on a stage, with tasks of every kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.scripted.cast import Cast
from tests.scripted.stage import Stage


@pytest.fixture
async def stage(
    hw: Headway, db: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stage]:
    stage = Stage(hw, db, monkeypatch)
    yield stage
    await stage.close()


@pytest.fixture
def limits() -> bool:
    """Whether a task has a limit. Without one the worker claims by claim_plain.sql, and settles in
    parallel with the claim."""
    return True


@pytest.fixture
async def cast(stage: Stage, limits: bool) -> Cast:
    """The tasks, and a worker that serves them."""
    cast = Cast(stage, limits=limits)
    await stage.open()
    return cast
