"""B9: SQL does not drop keys that a task's code would give to a job."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from headway import Headway, Key, Limit
from tests.sql.hand import Hand

_Refused = psycopg.errors.InvalidParameterValue


@pytest.fixture
def declared(hand: Hand) -> None:
    """The declarations of a worker, for a task of each kind."""
    hw = Headway(hand.dsn, schema=hand.schema)

    @hw.task(unique=lambda n: str(n))
    async def unique(n: int) -> None: ...

    @hw.task(concurrency_key=Key(lambda n: str(n), ordered=True))
    async def ordered(n: int) -> None: ...

    @hw.task(limit=Limit(rate="1/s", key=lambda n: str(n)))
    async def limited(n: int) -> None: ...

    flow = hw.flow("steps", concurrency_key=lambda n: str(n))

    @flow.step
    async def first(n: int) -> Any: ...

    @hw.task
    async def plain(n: int) -> None: ...

    hw.run_until_idle_sync()
    hw.close_sync()


_KEYS = {
    "unique": "unique_key",
    "ordered": "concurrency_key",
    "limited": "limit_key",
    "steps": "concurrency_key",
}


@pytest.mark.parametrize("task", _KEYS)
def test_b9_a_job_without_the_keys_of_its_task_is_refused(
    hand: Hand, declared: None, task: str
) -> None:
    key = _KEYS[task]
    with pytest.raises(_Refused, match=f"computes its {key} in its code") as found:
        hand.enqueue(task, {"n": 1})
    assert "no_keys => true" in (found.value.diag.message_hint or "")
    with pytest.raises(_Refused, match=key):
        hand.call("enqueue_many", [{"task": "plain"}, {"task": task}])
    with pytest.raises(_Refused, match=key):
        hand.rows("insert into inbox (task) values (%s)", task)
    assert hand.rows("select 1 from job") == []


@pytest.mark.parametrize("task", _KEYS)
def test_b9_a_key_that_is_given_or_not_wanted_lets_it_through(
    hand: Hand, declared: None, task: str
) -> None:
    hand.enqueue(task, {"n": 1}, **{_KEYS[task]: "mine"})
    bare = hand.job(hand.enqueue(task, {"n": 1}, no_keys=True))
    assert (bare["key"], bare["unique_key"]) == (None, None)
    hand.rows("insert into inbox (task, no_keys) values (%s, true)", task)
    hand.rows("select enqueue_many(%s)", Jsonb([{"task": task, "no_keys": True}]))
    hand.enqueue("plain", {"n": 1})
