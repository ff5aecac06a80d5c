"""Many jobs in one call, and what is counted of a queue."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from headway import Headway
from headway.errors import InvalidInput
from tests.reference.scenes import work_of
from tests.sql.hand import Hand


def _many(hand: Hand, *calls: dict[str, Any]) -> list[UUID]:
    found = hand.rows(
        "select enqueue_many(%s) as id", Jsonb([{"task": "greet"} | c for c in calls])
    )
    return [row["id"] for row in found]


def test_q8_a_batch_has_headers_for_each(hand: Hand) -> None:
    """pgmq: an array of them beside the entries. Headway: each call has its own; ids come in order."""
    calls = [{"input": {"n": n}, "queue": "ext", "headers": {"n": str(n)}} for n in range(3)]
    made = _many(hand, *calls, {"queue": "ext"})
    claimed = hand.claim("ext", 9)
    assert [one["id"] for one in claimed] == made
    assert [one["input"] for one in claimed] == [{"n": 0}, {"n": 1}, {"n": 2}, {}]
    assert [one["headers"] for one in claimed] == [{"n": "0"}, {"n": "1"}, {"n": "2"}, None]


async def test_q9_a_batch_that_is_wrong_makes_nothing_and_an_empty_one_is_not_wrong(
    hw: Headway, hand: Hand
) -> None:
    """pgmq: headers of another length, or no entries, are errors. Headway: headers cannot have another
    length, none of nothing is nothing, and one bad call refuses all."""
    work = work_of(hw)
    assert _many(hand) == []
    assert await work.enqueue_many([]) == []
    for wrong in ({}, "text", None):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="not a JSON array"):
            hand.call("enqueue_many", Jsonb(wrong))
    bad: list[dict[str, Any]] = [
        {"headers": [{"n": "1"}]},
        {"headers": {"n": 1}},
        {"header": {"n": "1"}},
        {"input": [1]},
        {"delay": -1},
    ]
    for call in bad:
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            _many(hand, {"queue": "ext"}, call)
    with pytest.raises(InvalidInput, match="item 1"):
        await work.enqueue_many([{"number": 1}, {"number": "no number"}])
    assert hand.rows("select id from jobs") == []


def test_q10_a_batch_may_be_for_a_moment_to_come(hand: Hand) -> None:
    """pgmq: one timestamp for all. Headway: one for each, or a delay."""
    later = hand.value("select now() + interval '1 hour'")
    made = _many(
        hand,
        {"queue": "ext", "at": later.isoformat()},
        {"queue": "ext", "delay": 7200},
        {"queue": "ext"},
    )
    assert [claimed["id"] for claimed in hand.claim("ext", 9)] == made[2:]
    assert hand.job(made[0])["run_at"] == later
    assert [hand.state(job) for job in made] == ["scheduled", "scheduled", "running"]


async def test_q12_metrics_tell_what_waits_from_what_can_run_and_what_has_ended(
    hw: Headway, hand: Hand
) -> None:
    """pgmq: length, visible length and totals. Headway: a number for each state and each end."""
    for _ in range(4):
        hand.enqueue(queue="ext")
    for _ in range(3):
        hand.enqueue(queue="ext", delay="1 hour")
    hand.settle("complete", hand.claim("ext")[0])
    hand.claim("ext")
    found = await hw.queues.metrics("ext")
    assert (found.ready, found.scheduled, found.running, found.succeeded) == (2, 3, 1, 1)
    assert found.oldest_ready_age is not None
    assert found.newest_ready_age is not None
    assert found.oldest_ready_age >= found.newest_ready_age >= 0
    row = hand.row("select * from metrics('ext')")
    assert (row["ready"], row["scheduled"], row["running"], row["succeeded"]) == (2, 3, 1, 1)
    assert row["oldest_ready_age"] >= row["newest_ready_age"]


async def test_q13_metrics_of_all_have_a_row_for_each_queue(hw: Headway, hand: Hand) -> None:
    """pgmq: a row for each queue that was created. Headway: for each that has or had jobs, or that
    something was said of."""
    for n in range(3):
        hand.enqueue(queue=f"queue {n}")
    hand.settle("complete", hand.held(queue="done"))
    hand.call("pause", "paused")
    names = ["done", "paused", "queue 0", "queue 1", "queue 2"]
    assert [row.name for row in await hw.queues.metrics()] == names
    assert [row["queue"] for row in hand.rows("select queue from metrics()")] == names
