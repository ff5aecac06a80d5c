"""Hostile inputs to the Python API: each works, or raises an error of Headway's own (S11, S17, S18, S31).

The audit tried 121 of them by hand. Here are tables of calls (`hostile_declarations`, `hostile_calls`,
`hostile_operations`). Each call has its outcome: an exception class, or `Gives(value)`. TypeError is
for a call that no signature allows. Most calls are made on an app whose server does not answer: these
errors are raised before the server is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.errors import HeadwayError
from tests.api import hostile_calls
from tests.api.hostile import Call, Gives, World
from tests.api.hostile_declarations import DECLARATIONS
from tests.api.hostile_operations import OPERATIONS_AND_APPS

DEAD = "postgresql://nobody@127.0.0.1:1/none"

WITHOUT_A_SERVER = DECLARATIONS | hostile_calls.WITHOUT_A_SERVER | OPERATIONS_AND_APPS
WITH_A_SERVER = hostile_calls.WITH_A_SERVER


@pytest.fixture
def dead() -> World:
    """A world whose server does not answer: reaching for it is an error of another class."""
    return _world(DEAD, "headway")


@pytest.fixture
def alive(dsn: str, schema: str) -> Iterator[World]:
    world = _world(dsn, schema)
    yield world
    world.app.close_sync()


@pytest.mark.parametrize("case", WITHOUT_A_SERVER)
def test_a_hostile_value_is_refused_without_a_server(dead: World, case: str) -> None:
    _check(dead, *WITHOUT_A_SERVER[case])


@pytest.mark.parametrize("case", WITH_A_SERVER)
def test_a_hostile_value_that_reaches_the_server_has_an_answer(
    alive: World, db: psycopg.Connection[Any], case: str
) -> None:
    _check(alive, *WITH_A_SERVER[case])
    good = alive.other.enqueue_sync()
    alive.app.run_until_idle_sync(queues={"default": 1})
    assert good.result_sync() == "other"
    assert db.execute("select 1 from job where state = 'x'").fetchall() == []


def _world(dsn: str, schema: str) -> World:
    app = Headway(dsn, schema=schema)
    app._session.timeout = 0.5 if dsn == DEAD else None

    @app.task
    def greet(number: int, extra: Any = None) -> int:
        return number

    @app.task
    def other() -> str:
        return "other"

    return World(app, greet, other)


def _check(world: World, call: Call, outcome: type[Exception] | Gives) -> None:
    if isinstance(outcome, Gives):
        assert call(world) == outcome.value
        return
    with pytest.raises((HeadwayError, TypeError)) as raised:
        call(world)
    assert type(raised.value) is outcome, raised.value
