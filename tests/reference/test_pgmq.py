"""The behaviours (Q) and defects (QD) of pgmq that no other folder proves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.reference.scenes import work_of
from tests.sql.hand import Hand
from tests.support import DEADLINE

_FILL = """
insert into job (id, run_at, created_at, max_attempts, state, queue, task, input, worker_id,
                 key, key_limit, ordered, holds)
select new_id(), now() + make_interval(hours => (%(state)s = 's')::integer), now(), 5, %(state)s::"char",
       'ext', 'greet', '{}', case %(state)s when 'x' then 0 end, 'key ' || n %% %(keys)s, 1, true,
       %(state)s <> 'b' and n <= %(keys)s
from generate_series(1, %(count)s) n"""


_READ = """
select coalesce(sum(seq_tup_read), 0)::integer as walked,
       coalesce(sum(idx_tup_fetch), 0)::integer as found
from pg_stat_xact_user_tables where schemaname = %s and relname = 'job'"""


def _fill(hand: Hand, state: str, count: int, keys: int = 0) -> None:
    query = _FILL if keys else _FILL.replace("'key ' || n %% %(keys)s", "null")
    hand.conn.execute(query, {"state": state, "count": count, "keys": keys})  # type: ignore[arg-type]


def _read(hand: Hand) -> int:
    """How many rows of jobs this transaction has read so far, walking and by indexes."""
    row = hand.row(_READ, hand.schema)
    return row["walked"] + row["found"]


def test_qd1_what_is_hidden_is_not_walked_by_a_claim(hand: Hand) -> None:
    """pgmq: each read steps over everything that is delayed or held. Headway: a claim reads what it
    takes, whatever stands before it: that is in no index of ready jobs."""
    hand.engine_lives()
    _fill(hand, "s", 3_000)
    _fill(hand, "x", 1_000)
    for _ in range(10):
        hand.enqueue(queue="ext")
    hand.rows("analyze job")
    with hand.conn.transaction():
        before = _read(hand)
        assert len(hand.claim("ext", 10)) == 10
        assert _read(hand) - before < 100


def test_qd1_a_plan_that_was_made_for_an_empty_queue_does_not_walk_a_full_one(
    hand: Hand, dsn: str, schema: str
) -> None:
    """pgmq: plans its text again for each call. Headway: plans are kept, by sessions that may live long:
    so they go by indexes from the start, also where a table of one page would be walked faster."""
    ways = {
        "complete": [],
        "release": [],
        "snooze": ["1 hour"],
        "fail": ["why"],
        "advance": ["two"],
    }
    hand.engine_lives()
    hand.rows("alter table job set (autovacuum_enabled = off)")  # it would invalidate the plans

    def settle_one_of_each() -> None:
        for way, given in ways.items():
            hand.enqueue(queue="ext")
            claimed = hand.claim("ext")[0]
            assert hand.settle("extend", claimed)
            assert hand.settle(way, claimed, *given)

    for _ in range(6):  # a plan for all values is made and kept after five
        settle_one_of_each()
    with closing(Hand(dsn, schema)) as other:
        _fill(other, "s", 5_000)
    with hand.conn.transaction():
        before = _read(hand)
        settle_one_of_each()
        assert _read(hand) - before < 500


def test_qd2_a_lease_is_not_written_into_the_jobs_it_is_for(hand: Hand) -> None:
    """pgmq: every read, and every longer timeout, rewrites rows and an index on the moment. Headway: a
    claim writes the row once; leases are one row for each consumer, however many jobs it holds."""
    for _ in range(50):
        hand.enqueue(queue="ext")
    claimed = hand.claim("ext", 50)
    rows = "select ctid::text, xmin::text from job order by 1"
    before = hand.rows(rows)
    for one in claimed:
        assert hand.settle("extend", one, "2 hours")
    assert hand.rows(rows) == before
    assert hand.value("select count(*) from worker") == 1
    indexed = "select string_agg(indexdef, ' ') from pg_indexes where tablename = 'worker'"
    assert "expires_at" not in hand.value(f"{indexed} and schemaname = %s", hand.schema)


def test_qd3_a_claim_in_order_reads_no_more_of_a_group_than_its_head(hand: Hand) -> None:
    """pgmq: a grouped read aggregates the whole table. Headway: a claim, its end and the next of the
    group read a few rows, however long the lines are, also where no worker lives."""
    _fill(hand, "b", 6_000, keys=3)
    hand.rows("analyze job")
    hand.sweep()
    hand.rows("select setval('swept', 1)")
    with hand.conn.transaction():
        before = _read(hand)
        claimed = hand.claim("ext", 9)
        assert sorted(one["key"] for one in claimed) == ["key 0", "key 1", "key 2"]
        assert all(hand.settle("complete", one) for one in claimed)
        assert len(hand.claim("ext", 9)) == 3
        assert _read(hand) - before < 300


def test_qd6_a_queue_is_no_table(hand: Hand) -> None:
    """pgmq: two tables and their indexes for each, made and dropped at run time. Headway: none."""
    there = "select count(*), max(oid) from pg_class where relnamespace = %s::regnamespace"
    before = hand.row(there, hand.schema)
    for number in range(20):
        hand.enqueue(queue=f"queue {number}")
        (claimed,) = hand.claim(f"queue {number}")
        hand.settle("complete", claimed)
        hand.call("pause", f"queue {number}")
        hand.call("purge", f"queue {number}")
    assert hand.row(there, hand.schema) == before


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
    """Their groups by name: the order of jobs that were admitted together is not promised."""
    return "".join(sorted(claimed["key"] or " " for claimed in claims))


def _complete(hand: Hand, claims: list[dict[str, Any]]) -> None:
    assert all(hand.settle("complete", claimed) for claimed in claims)


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


async def test_q26_names_have_hyphens_capitals_and_signs(
    hw: Headway, hand: Hand, start: Any
) -> None:
    """pgmq: capitals are one queue with small letters, and never notified; $ ; -- ' are refused.
    Headway: every printable name is one of its own, and its jobs are heard of."""
    work = work_of(hw)
    names = ["Mail", "mail", "mail-2", "a;b", "--", "it's", "$x", "größe", "two words"]
    worker = start(queues=dict.fromkeys(names, 1), poll="1h")
    for number, name in enumerate(names):
        job = await work.using(queue=name).enqueue(number)
        assert await job.result(timeout=DEADLINE) == number
        assert (await job.status()).queue == name
    assert not worker.done()


def test_q27_no_input_is_an_empty_one(hand: Hand) -> None:
    """pgmq: an entry may be NULL. Headway: a job has arguments; NULL and nothing mean none of them."""
    for sql in ("enqueue('greet', null)", "enqueue('greet')", "enqueue('greet', 'null')"):
        hand.rows(f"select {sql}")
    assert [claimed["input"] for claimed in hand.claim("default", 3)] == [{}, {}, {}]
    for wrong in ("[]", "1", '"text"'):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="not a JSON object"):
            hand.rows("select enqueue('greet', %s::jsonb)", wrong)
