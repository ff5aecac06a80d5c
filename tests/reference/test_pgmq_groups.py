"""Order within a group, and turns between groups: pgmq's grouped reads are ordered keys here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, closing
from typing import Any

import psycopg
import pytest

from headway import Headway, PulledJob
from tests.sql.hand import Hand
from tests.support import DEADLINE, eventually


@pytest.fixture
def hand(dsn: str, schema: str) -> Iterator[Hand]:
    with closing(Hand(dsn, schema)) as hand:
        yield hand


def _send(hand: Hand, groups: str, **options: Any) -> None:
    """A job for each letter, numbered; a blank stands for no group."""
    for number, group in enumerate(groups):
        key = {} if group == " " else {"concurrency_key": group, "ordered": True}
        hand.enqueue(input_={"n": number}, queue="ext", **key, **options)
    hand.sweep()


def _claim(hand: Hand, count: int = 9) -> list[dict[str, Any]]:
    return hand.claim("ext", count)


def _numbers(claims: list[dict[str, Any]]) -> list[int]:
    return [claimed["input"]["n"] for claimed in claims]


def _groups(claims: list[dict[str, Any]]) -> str:
    """Their groups by name: which of those that were let in together comes first is nobody's promise."""
    return "".join(sorted(claimed["key"] or " " for claimed in claims))


def _complete(hand: Hand, claims: list[dict[str, Any]]) -> None:
    assert all(hand.settle("complete", claimed) for claimed in claims)


def _one_by_one(hand: Hand, most: int) -> str:
    """The groups in the order in which a consumer who takes one at a time is given them."""
    taken = ""
    while len(taken) < most and (claims := _claim(hand, 1)):
        taken += _groups(claims)
        _complete(hand, claims)
    return taken


def test_q33_the_next_of_a_group_comes_when_the_one_before_has_ended(hand: Hand) -> None:
    """pgmq: after its delete. Headway: after its end, through retries too; by the same transaction."""
    _send(hand, "AAA")
    (first,) = _claim(hand)
    assert _numbers([first]) == [0]
    assert _claim(hand) == []
    assert hand.settle("fail", first, "why", delay="0 s")
    hand.sweep()
    (again,) = _claim(hand)
    assert (again["id"], again["attempt"]) == (first["id"], 2)
    for number in (1, 2):
        _complete(hand, [again])
        (again,) = _claim(hand)
        assert _numbers([again]) == [number]


def test_q34_groups_do_not_wait_for_each_other(hand: Hand) -> None:
    """pgmq: in parallel. Headway: the same."""
    _send(hand, "ABAB")
    (held,) = _claim(hand, 1)
    (other,) = _claim(hand)
    assert _groups([held, other]) == "AB"
    _complete(hand, [other])
    (following,) = _claim(hand)
    assert (following["key"], following["input"]["n"]) == (other["key"], other["input"]["n"] + 2)


def test_q35_jobs_without_a_key_wait_for_nobody(hand: Hand) -> None:
    """pgmq: those without a header are one group. Headway: they are none; order is what is asked for."""
    _send(hand, "   ")
    assert _numbers(_claim(hand, 1)) == [0]
    assert _numbers(_claim(hand)) == [1, 2]


def test_q36_a_lost_job_comes_again_before_the_rest_of_its_group(hand: Hand) -> None:
    """pgmq: after its timeout, in order. Headway: after the lease; nobody has passed it."""
    _send(hand, "AAA")
    (first,) = _claim(hand)
    hand.lose_consumers()
    hand.sweep()
    (again,) = _claim(hand)
    assert (again["id"], again["claim"] >> 32) == (first["id"], 2)
    assert _claim(hand) == []
    assert not hand.settle("complete", first)
    _complete(hand, [again])
    assert _numbers(_claim(hand)) == [1]


def test_q38_the_index_of_groups_is_part_of_the_schema(hand: Hand) -> None:
    """pgmq: to be created for each queue. Headway: one for all, from the start."""
    query = "select indexname from pg_indexes where schemaname = %s"
    assert {"job_line", "job_holding"} <= {
        row["indexname"] for row in hand.rows(query, hand.schema)
    }


async def test_q39_a_consumer_that_waits_is_given_the_next_of_a_group(
    hw: Headway, hand: Hand
) -> None:
    """pgmq: a poll on the server. Headway: a pull that waits to hear of it."""
    _send(hand, "AA")
    first: PulledJob | None = None
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext")) as pulled:
        first = await anext(pulled)
        hand.rows("select setval('swept', 1)")
        coming = asyncio.ensure_future(anext(pulled))
        await eventually(lambda: hand.value("select last_value from swept") > 1)
        assert not coming.done()
        assert await first.complete()
        second = await coming
    assert (first.input, second.input) == ({"n": 0}, {"n": 1})
    assert await second.complete()


def test_q40_no_group_is_null_and_an_empty_one_is_refused(hand: Hand) -> None:
    """pgmq: NULL and empty are groups like any other. Headway: NULL is none, "" is most likely a slip."""
    for _ in range(2):
        hand.enqueue(queue="ext", concurrency_key=None)
    assert len(_claim(hand)) == 2
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="concurrency_key"):
        hand.enqueue(queue="ext", concurrency_key="")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="no key is given"):
        hand.enqueue(queue="ext", ordered=True)


def test_q41_a_batch_is_not_filled_from_one_group(hand: Hand) -> None:
    """pgmq: A, A, A, B in one read of the oldest group first. Headway: one of each at a time, so that no
    one has to keep the order within a batch; many at once of a key is a limit, without order."""
    _send(hand, "AAABB")
    claimed = _claim(hand, 4)
    assert _groups(claimed) == "AB"
    _complete(hand, claimed)
    for number in range(4):
        hand.enqueue(input_={"n": number}, queue="ext", concurrency_key="C", concurrency_limit=3)
    hand.sweep()
    assert _groups(_claim(hand)) == "ABCCC"


def test_q42_one_of_each_group_is_all_that_a_claim_gives(hand: Hand) -> None:
    """pgmq: another function than the one that fills up. Headway: what an ordered key means."""
    _send(hand, "AAABBC")
    claimed = _claim(hand)
    assert (_groups(claimed), sorted(_numbers(claimed))) == ("ABC", [0, 3, 5])


def test_q43_jobs_with_and_without_a_group_mix(hand: Hand) -> None:
    """pgmq: those without are a group of their own. Headway: they are claimed as they come."""
    _send(hand, "A B AB ")
    claimed = _claim(hand)
    assert _groups(claimed) == "   AB"
    assert sorted(_numbers(claimed)) == [0, 1, 2, 3, 6]
    _complete(hand, claimed)
    assert sorted(_numbers(_claim(hand))) == [4, 5]


def test_q45_a_group_is_closed_while_its_first_is_held_or_put_off(hand: Hand) -> None:
    """pgmq: while its head is invisible. Headway: the same; an extended lease keeps it so."""
    _send(hand, "AAB")
    first, _ = sorted(_claim(hand), key=lambda claimed: claimed["key"])
    assert hand.settle("extend", first, "2 hours")
    hand.sweep()
    assert _claim(hand) == []
    assert hand.settle("snooze", first, "1 hour")
    hand.sweep()
    assert _claim(hand) == []
    hand.rows("update job set run_at = now() where state = 's'")
    hand.sweep()
    assert _numbers(_claim(hand)) == [0]


async def test_q46_a_consumer_goes_through_all_groups(hw: Headway, hand: Hand) -> None:
    """pgmq: a poll for a batch. Headway: a pull of several at a time; each group in its order."""
    _send(hand, "AABBAB")
    seen: list[PulledJob] = []
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext", count=4)) as pulled:
        async for job in pulled:
            seen.append(job)
            assert await job.complete()
            if len(seen) == 6:
                break
    for group, numbers in (("A", [0, 1, 4]), ("B", [2, 3, 5])):
        assert [job.input["n"] for job in seen if job.key == group] == numbers


@pytest.mark.parametrize("size", [3, 7])
def test_q47_batches_of_any_size_give_all_of_every_group_in_order(hand: Hand, size: int) -> None:
    """pgmq: reads of 3 and 7. Headway: claims of 3 and 7; never two of one group together."""
    _send(hand, "AAAABBBCCDE")
    taken: list[dict[str, Any]] = []
    while claims := _claim(hand, size):
        assert len(claims) <= size
        assert len(set(_groups(claims))) == len(claims)
        _complete(hand, claims)
        taken += claims
    assert sorted(_numbers(taken)) == list(range(11))
    for group in "ABCDE":
        numbers = _numbers([claimed for claimed in taken if claimed["key"] == group])
        assert numbers == sorted(numbers)


def test_q48_groups_take_turns(hand: Hand) -> None:
    """pgmq: g1, g2, g3, g1, .. within a read, by a function of its own. Headway: always: who is let in
    goes to the tail, however long its own line is."""
    _send(hand, "AAAAABBBBBCCCCC")
    taken = _one_by_one(hand, 10)
    taken += _one_by_one(hand, 15)
    assert sorted(taken[:3]) == ["A", "B", "C"]
    assert taken == taken[:3] * 5
    assert _claim(hand) == []


async def test_q49_the_heads_of_all_groups_then_the_rest_then_none(hw: Headway, hand: Hand) -> None:
    """pgmq: 3 groups give 3, then the rest, then nothing; those without a header are one group; with a
    poll. Headway: the same without asking for it; those without a key all come at once."""
    _send(hand, "AABBCC")
    heads = _claim(hand)
    assert (_groups(heads), _claim(hand)) == ("ABC", [])
    _complete(hand, heads)
    rest = [*_claim(hand, 2), *_claim(hand)]
    assert (_groups(rest), sorted(_numbers(rest))) == ("ABC", [1, 3, 5])
    _complete(hand, rest)
    assert _claim(hand) == []
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext", count=9)) as pulled:
        coming = asyncio.ensure_future(anext(pulled))
        _send(hand, "D  ")
        got = [await coming, await anext(pulled), await anext(pulled)]
    assert sorted(job.key or "" for job in got) == ["", "", "D"]
