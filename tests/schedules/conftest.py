"""An app at a moment that the test chooses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.schedules.travel import Travel


@pytest.fixture
def travel(hw: Headway, db: psycopg.Connection[Any]) -> Travel:
    """`hw` at noon, until it is moved on."""
    return Travel(hw, db)


@pytest.fixture
async def another(dsn: str, schema: str, travel: Travel) -> AsyncIterator[Callable[..., Headway]]:
    """Makes other apps on the same schema, at the same moment: a new deploy, or a neighbour."""
    made: list[Headway] = []

    def another(**options: Any) -> Headway:
        made.append(travel.bring(Headway(dsn, schema=schema, **options)))
        return made[-1]

    yield another
    for app in made:
        await app.close()
