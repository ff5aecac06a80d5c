"""A record of what is sent."""

from __future__ import annotations

from typing import Any

import pytest

from headway.store.connections.engine_connection import EngineConnection
from headway.store.statement import Statement


class Sent:
    """The statements that workers of this process sent, by round trip, in order."""

    def __init__(self) -> None:
        self.trips: list[list[Statement[Any]]] = []

    def count(self, name: str) -> int:
        """How many statements of this name there were."""
        return sum(statement.name == name for trip in self.trips for statement in trip)

    def clear(self) -> None:
        self.trips.clear()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Everything that workers send from now on; it is sent all the same."""
    sent = Sent()
    run_all = EngineConnection.run_all

    async def record(self: EngineConnection, *statements: Statement[Any]) -> list[Any]:
        sent.trips.append(list(statements))
        return await run_all(self, *statements)

    monkeypatch.setattr(EngineConnection, "run_all", record)
    return sent
