"""The defects of pgmq, QD1 to QD6: Headway has none of them.

How much is read is asked of the server's own counters, which know nothing of time.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, closing
from typing import Any

import psycopg

from headway import Headway
from tests.reference.scenes import OURS, backends, work_of
from tests.sql.hand import Hand
from tests.support import DEADLINE, eventually

_FILL = """
insert into job (id, run_at, created_at, max_attempts, state, queue, task, input, worker_id,
                 key, key_limit, ordered, holds)
select new_id(), now() + make_interval(hours => (%(state)s = 's')::integer), now(), 5, %(state)s::"char",
       'ext', 'greet', '{}', case %(state)s when 'x' then 0 end, 'key ' || n %% %(keys)s, 1, true,
       %(state)s <> 'b' and n <= %(keys)s
from generate_series(1, %(count)s) n"""
"""So many jobs in a state, behind so many keys; the first of each has room where they are not blocked."""

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
    """pgmq: plans its text anew for each call. Headway: plans are kept, by sessions that may live long:
    so they go by indexes from the start, also where a table of one page would be walked faster."""
    ways = {
        "complete": [],
        "release": [],
        "snooze": ["1 hour"],
        "fail": ["why"],
        "advance": ["two"],
    }
    hand.engine_lives()
    hand.rows("alter table job set (autovacuum_enabled = off)")  # it would have the plans made anew

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


async def test_qd2_what_is_not_to_be_kept_is_not_written_again(hw: Headway, hand: Hand) -> None:
    """pgmq: an archived entry is written a second time. Headway: so it is, unless the task says that
    nobody wants it."""

    @hw.task(keep=None)
    async def work() -> None: ...

    await work.enqueue()
    await hw.run_until_idle()
    assert (hand.rows("select id from jobs"), hand.value("select count(*) from archive")) == ([], 0)
    assert (await hw.queues.metrics("default")).succeeded == 1


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


def test_qd4_metrics_of_a_long_queue_do_not_count_it(hand: Hand) -> None:
    """pgmq: counts the whole table. Headway: past a size, no further than a bound, and it says so."""
    for state in "rsb":
        _fill(hand, state, 2_000, keys=5 if state == "b" else 0)
    with hand.conn.transaction():
        before = _read(hand)
        found = hand.row("select * from live_jobs('ext', most_pages => 0, most_rows => 100)")
        assert _read(hand) - before < 400
    assert (found["ready"], found["scheduled"], found["blocked"]) == (101, 101, 101)
    assert found["estimated"]
    assert hand.row("select * from metrics('ext')")["ready"] == 2_000, "a short table is counted"


async def test_qd5_who_waits_for_work_holds_no_transaction(
    hw: Headway, hand: Hand, db: psycopg.Connection[Any]
) -> None:
    """pgmq: a poll sleeps on the server, with a connection and a snapshot. Headway: it listens."""
    busy = f"{OURS} and (xact_start is not null or backend_xmin is not null or state = 'active')"
    async with asyncio.timeout(DEADLINE), aclosing(hw.pull("ext")) as pulled:
        hand.rows("select setval('swept', 1)")
        coming = asyncio.ensure_future(anext(pulled))
        await eventually(lambda: hand.value("select last_value from swept") > 1)
        await eventually(lambda: not backends(db, "headway%", busy))
        made = hand.enqueue(queue="ext")
        assert (await coming).id == made


def test_qd5_producers_of_one_queue_do_not_wait_for_each_other(
    hand: Hand, dsn: str, schema: str
) -> None:
    """pgmq: throttled notifications are a row that all who send update, in an unlogged table. Headway:
    an enqueue locks nothing but what it makes; nothing that matters is unlogged."""
    with closing(Hand(dsn, schema)) as other:
        other.rows("set lock_timeout = '5s'")
        options = {"queue": "ext", "concurrency_key": "k"}
        with hand.conn.transaction():
            hand.enqueue(**options)
            made = other.enqueue(**options)
            assert other.state(made) == "blocked"
    unlogged = "select relname from pg_class where relpersistence = 'u'"
    assert hand.rows(f"{unlogged} and relnamespace = %s::regnamespace", schema) == []


def test_qd6_an_attempt_that_failed_is_tried_again_and_not_for_ever(hand: Hand) -> None:
    """pgmq: who reads must count, and move what is dead by itself. Headway: the policy is the job's."""
    hand.rows(
        "insert into task (name, queue, priority, max_attempts, keep_failed, dead_letter) "
        "values ('greet', 'ext', 0, 2, '1 day', 'dead')"
    )
    made = hand.enqueue(input_={"n": 1})
    for attempt in (1, 2):
        (claimed,) = hand.claim("ext")
        assert (claimed["attempt"], claimed["max_attempts"]) == (attempt, 2)
        assert hand.settle("fail", claimed, "no answer", delay="0 s")
        hand.sweep()
    assert hand.ended(made)["error"]["message"] == "no answer"
    (letter,) = hand.claim("dead")
    assert (letter["input"], letter["headers"]) == ({"n": 1}, {"dead-letter-of": str(made)})


def test_qd6_who_lost_a_job_cannot_touch_it(hand: Hand) -> None:
    """pgmq: delete, archive and set_vt take an id, whoever holds it. Headway: id and claim (G2)."""
    late = hand.held(queue="ext")
    hand.lose_consumers()
    hand.sweep()
    (current,) = hand.claim("ext")
    before = hand.everything()
    tried = [
        hand.settle("extend", late),
        hand.settle("complete", late, {}),
        hand.settle("fail", late, "why"),
        hand.settle("release", late),
        hand.settle("snooze", late, "1 hour"),
    ]
    assert tried == [False] * 5
    assert hand.everything() == before
    assert hand.settle("complete", current)


async def test_qd6_keys_priorities_rates_and_schedules_are_there(hw: Headway, hand: Hand) -> None:
    """pgmq: none of them. Headway: for consumers of every language."""
    first = hand.enqueue(queue="ext", unique_key="invoice 7")
    assert hand.enqueue(queue="ext", unique_key="invoice 7") == first
    urgent = hand.enqueue(queue="ext", priority=9)
    assert [one["id"] for one in hand.claim("ext", 9)] == [urgent, first]
    hand.call("set_limit", "ext", rate="2/hour", burst=2)
    for _ in range(5):
        hand.enqueue(queue="ext")
    assert [len(hand.claim("ext", 9)) for _ in range(2)] == [2, 0]
    await hw.schedules.put("nightly", work_of(hw), "0 3 * * *[Europe/Berlin]", input={"number": 1})
    assert hand.call("run_schedule", "nightly") is not None
    assert [one["input"] for one in hand.claim("default")] == [{"number": 1}]


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
