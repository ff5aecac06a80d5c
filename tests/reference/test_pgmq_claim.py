"""Claiming with a lease, hiding, extending, settling: what pgmq calls read, set_vt, delete, archive."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, closing
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from headway import Headway
from tests.sql.hand import Hand
from tests.support import DEADLINE, eventually


@pytest.fixture
def other(dsn: str, schema: str) -> Iterator[Hand]:
    """A second session."""
    with closing(Hand(dsn, schema)) as other:
        yield other


def test_q4_what_is_released_can_be_claimed_at_once(hand: Hand) -> None:
    """pgmq: read with a timeout of 0 hides nothing. Headway: a lease is a second or more; who only
    wants to look reads the view, and who claimed in vain gives it back, at no cost of an attempt."""
    made = hand.enqueue(queue="ext")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="lease"):
        hand.claim("ext", lease="0 s")
    assert hand.state(made) == "ready"
    for number in (1, 2, 3):
        (claimed,) = hand.claim("ext")
        assert (claimed["id"], claimed["claim"] >> 32, claimed["attempt"]) == (made, number, 1)
        assert hand.settle("release", claimed)


async def test_q6_what_is_put_off_is_hidden_until_then(hw: Headway, hand: Hand) -> None:
    """pgmq: set_vt hides, a poll blocks until it is over. Headway: snooze, and a pull that waits."""
    claimed = hand.held(queue="ext")
    assert hand.settle("snooze", claimed, "1 s")
    assert hand.state(claimed["id"]) == "scheduled"
    assert hand.claim("ext") == []
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext")) as pulled:
        job = await anext(pulled)
    assert (job.id, job.claim >> 32, job.attempt) == (claimed["id"], 2, 1)
    assert hand.value("select claimed_at >= run_at from job where id = %s", job.id)
    assert await job.complete()


def test_q7_a_job_with_a_moment_to_come_is_not_there_before_it(hand: Hand) -> None:
    """pgmq: send with a timestamp. Headway: `at`; until then it is in no index that a claim reads."""
    made = hand.enqueue(queue="ext", at=hand.value("select now() + interval '1 hour'"))
    assert hand.claim("ext") == []
    assert hand.state(made) == "scheduled"
    hand.rows("update job set run_at = now()")
    hand.sweep()
    assert [claimed["id"] for claimed in hand.claim("ext")] == [made]


def test_q15_a_job_that_ends_moves_into_the_archive_whole(hand: Hand) -> None:
    """pgmq: archive moves rows, body and headers kept, unknown ids skipped. Headway: complete does."""
    made = [hand.enqueue(input_={"n": n}, queue="ext", headers={"n": str(n)}) for n in range(3)]
    first, *rest = hand.claim("ext", 3)
    assert hand.settle("complete", first, {"done": True})
    claims = [{"id": str(one["id"]), "claim": one["claim"]} for one in rest]
    claims.append({"id": str(uuid4()), "claim": 1})
    told = hand.rows(
        "select complete(c.id, c.claim) as held from jsonb_to_recordset(%s::jsonb) "
        "as c(id uuid, claim bigint)",
        psycopg.types.json.Json(claims),
    )
    assert [row["held"] for row in told] == [True, True, False]
    assert hand.rows("select id from job") == []
    ended = [hand.ended(job) for job in made]
    assert [job["input"] for job in ended] == [{"n": n} for n in range(3)]
    assert [job["headers"] for job in ended] == [{"n": str(n)} for n in range(3)]
    assert ended[0]["result"] == {"done": True}


async def test_q16_a_claim_takes_no_more_than_it_asks_for(hw: Headway, hand: Hand) -> None:
    """pgmq: read has a limit, what it took is hidden, a poll waits for the first to be visible.
    Headway: the same; what is held comes back when its lease ends."""
    made = [hand.enqueue(queue="ext") for _ in range(5)]
    assert [claimed["id"] for claimed in hand.claim("ext", 2)] == made[:2]
    assert [claimed["id"] for claimed in hand.claim("ext", 9)] == made[2:]
    assert hand.claim("ext", 9) == []
    hand.rows("select setval('swept', 1)")
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext")) as pulled:
        coming = asyncio.ensure_future(anext(pulled))
        # Where no worker lives a claim sweeps first: by that it is known to have looked.
        await eventually(lambda: hand.value("select last_value from swept") > 1)
        assert not coming.done()
        hand.lose_consumers()
        job = await coming
    assert job.id in made
    assert (job.claim >> 32, job.attempt) == (2, 2)


def test_q17_a_purge_says_how_many_and_leaves_nothing_waiting(hand: Hand) -> None:
    """pgmq: everything is gone. Headway: what waits is cancelled and kept, what runs goes on."""
    hand.enqueue(queue="ext")
    (running,) = hand.claim("ext")
    waiting = [hand.enqueue(queue="ext") for _ in range(3)]
    waiting.append(hand.enqueue(queue="ext", delay="1 hour"))
    elsewhere = hand.enqueue(queue="other")
    assert hand.call("purge", "ext") == 4
    assert hand.call("purge", "ext") == 0
    assert {hand.ended(job)["state"] for job in waiting} == {"cancelled"}
    assert hand.settle("complete", running)
    assert hand.state(elsewhere) == "ready"


def test_q19_a_lease_is_extended_for_all_that_were_claimed_together(hand: Hand) -> None:
    """pgmq: set_vt of one or of many, of whoever's. Headway: one row for the call that claimed them, only
    by who holds the claim, and never into the past; an unknown one changes nothing."""
    for _ in range(3):
        hand.enqueue(queue="ext")
    first, second, third = hand.claim("ext", 3, lease="10 min")
    ends = "select expires_at from worker"
    before = hand.value(ends)
    unknown = [{"id": uuid4(), "claim": 1}, {"id": first["id"], "claim": first["claim"] + 1}]
    assert [hand.settle("extend", claim, "1 hour") for claim in unknown] == [False, False]
    assert hand.value(ends) == before
    assert hand.settle("extend", second, "1 hour")
    assert hand.value(ends) > before + timedelta(minutes=40)
    long = hand.value(ends)
    assert hand.settle("extend", third, "1 s")
    assert hand.value(ends) == long
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="lease"):
        hand.settle("extend", first, "-1 s")


def test_q28_the_moment_of_the_last_claim_is_kept(hand: Hand) -> None:
    """pgmq: last_read_at, null before, new with every read. Headway: started_at of who runs, and the
    attempts before it have theirs."""
    made = hand.enqueue(queue="ext")
    started = "select started_at from jobs where id = %s"
    assert hand.value(started, made) is None
    (first,) = hand.claim("ext")
    began = hand.value(started, made)
    assert began is not None
    hand.settle("fail", first, "why", delay="0 s")
    assert hand.value(started, made) is None
    hand.sweep()
    (second,) = hand.claim("ext")
    assert hand.value(started, made) > began
    hand.settle("complete", second)
    assert hand.ended(made)["started_at"] > began
    assert hand.row("select started_at from attempt where job_id = %s", made) == {
        "started_at": began
    }


def test_q31_a_job_of_an_open_transaction_is_seen_by_nobody_else(hand: Hand, other: Hand) -> None:
    """pgmq: invisible until the commit. Headway: the same (G1)."""
    with hand.conn.transaction():
        made = hand.enqueue(queue="ext")
        assert other.claim("ext") == []
        assert other.rows("select id from jobs") == []
    assert [claimed["id"] for claimed in other.claim("ext")] == [made]


def test_q32_what_an_open_transaction_claimed_is_passed_by(hand: Hand, other: Hand) -> None:
    """pgmq: skipped, and there again after a rollback. Headway: the same; the claim never was."""
    first, second = hand.enqueue(queue="ext"), hand.enqueue(queue="ext")
    with hand.conn.transaction(force_rollback=True):
        assert [claimed["id"] for claimed in hand.claim("ext")] == [first]
        assert [claimed["id"] for claimed in other.claim("ext", 2)] == [second]
    (claimed,) = other.claim("ext", 2)
    assert (claimed["id"], claimed["claim"] >> 32, claimed["attempt"]) == (first, 1, 1)
