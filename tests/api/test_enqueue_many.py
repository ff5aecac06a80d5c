"""Many jobs in one call."""

from typing import Any

import psycopg
import pytest

from headway import Headway, KeyTaken, Unique
from headway.errors import ConfigError, InvalidInput, JobNotFound


@pytest.fixture
def square(hw: Headway):
    @hw.task
    async def square(n: int) -> int:
        return n * n

    return square


async def test_twenty_thousand_jobs_in_one_call_have_their_ids_in_order(hw, square, db) -> None:
    jobs = await square.enqueue_many({"n": n} for n in range(20_000))
    ids = [job.id for job in jobs]
    assert ids == sorted(ids)
    stored = db.execute("select id, (input->>'n')::int from job order by seq").fetchall()
    assert stored == list(zip(ids, range(20_000), strict=True))


def test_the_same_without_an_event_loop(dsn: str, schema: str, db) -> None:
    with Headway(dsn, schema=schema) as hw:

        @hw.task
        def task(n: int) -> None: ...

        jobs = task.enqueue_many_sync([{"n": n} for n in range(6_000)])
        stored = db.execute("select id from job order by seq").fetchall()
        assert [job.id for job in jobs] == [row[0] for row in stored]


async def test_they_are_one_transaction(hw, square, db) -> None:
    await square.enqueue_many({"n": n} for n in range(12_000))
    assert db.execute("select count(distinct xmin::text), count(*) from job").fetchone() == (
        1,
        12_000,
    )


async def test_one_call_that_does_not_fit_and_there_are_none(hw, square, db) -> None:
    items = [{"n": n} for n in range(8_000)]
    items[7_654] = {"n": "many"}
    with pytest.raises(InvalidInput, match="item 7654"):
        await square.enqueue_many(items)
    assert db.execute("select count(*) from job").fetchone() == (0,)


async def test_a_refusal_of_the_database_in_the_middle_leaves_none(hw, square, db) -> None:
    db.execute("alter table job add constraint test_limit check ((input->>'n')::int < 7000)")
    with pytest.raises(Exception, match="test_limit"):
        await square.enqueue_many({"n": n} for n in range(8_000))
    assert db.execute("select count(*) from job").fetchone() == (0,)


async def test_a_source_that_breaks_off_leaves_none(hw, square, db) -> None:
    def numbers():
        yield {"n": 1}
        raise OSError("the file ended early")

    with pytest.raises(OSError, match="ended early"):
        await square.enqueue_many(numbers())
    assert db.execute("select count(*) from job").fetchone() == (0,)


async def test_calls_of_their_own_have_options_of_their_own(hw, square) -> None:
    jobs = await square.enqueue_many(
        [
            {"n": 1},
            square.using(priority=5, queue="fast").call(2),
            square.using(delay="1h", headers={"a": "b"}).call(n=3),
            square.call(4),
        ]
    )
    told = [await job.status() for job in jobs]
    assert [s.input["n"] for s in told] == [1, 2, 3, 4]
    assert [s.state for s in told] == ["ready", "ready", "scheduled", "ready"]
    assert [(s.queue, s.priority) for s in told][:2] == [("default", 0), ("fast", 5)]
    assert told[2].headers == {"a": "b"}


async def test_options_of_the_whole_call_hold_for_plain_items_only(hw, square) -> None:
    jobs = await square.using(priority=9).enqueue_many([{"n": 1}, square.using(priority=1).call(2)])
    assert [(await job.status()).priority for job in jobs] == [9, 1]


async def test_a_call_of_another_task_is_refused(hw, square) -> None:
    @hw.task
    async def other() -> None: ...

    with pytest.raises(InvalidInput, match="item 1"):
        await square.enqueue_many([square.call(1), other.call()])


@pytest.mark.parametrize("item", [1, "n", None, [("n", 1)], ("n",)])
async def test_an_item_that_is_no_call_is_refused_by_its_place(hw, square, item) -> None:
    with pytest.raises(InvalidInput, match="item 0"):
        await square.enqueue_many([item])


async def test_no_calls_are_no_jobs_and_no_connection(square) -> None:
    app = Headway("postgresql://nobody@127.0.0.1:1/none")

    @app.task
    async def task() -> None: ...

    assert await task.enqueue_many([]) == []


async def test_any_number_of_priorities_may_come_in_one_call(hw, start, db) -> None:
    """One notification names the lanes, and its length is bounded by the server."""
    ran: list[int] = []

    @hw.task(queue="q" * 200)
    async def task(n: int) -> None:
        ran.append(n)

    start(poll="1h", poll_alone="1h")
    priorities = range(-20_000, -17_000)
    jobs = await task.enqueue_many(task.using(priority=p).call(p) for p in priorities)
    for job in jobs[:: len(jobs) - 1]:
        await job.result(timeout="60s")
    await hw.run_until_idle()
    assert sorted(ran) == list(priorities)


async def test_large_payloads_are_spread_over_statements(hw, db) -> None:
    @hw.task
    async def task(data: str) -> None: ...

    sizes = [3_000_000, 10, 9_000_000, 10, 6_000_000, 6_000_000]
    jobs = await task.enqueue_many({"data": "x" * size} for size in sizes)
    stored = dict(db.execute("select id, length(input->>'data') from job").fetchall())
    assert [stored[job.id] for job in jobs] == sizes


async def test_calls_of_several_tasks_are_made_together_and_in_order(hw: Headway) -> None:
    @hw.task
    async def double(n: int) -> int:
        return 2 * n

    @hw.task(queue="other")
    def shout(word: str) -> str:
        return word.upper()

    flow = hw.flow("two")

    @flow.step
    async def first(n: int) -> int:
        return n

    calls = [double.call(1), shout.using(priority=3).call("a"), flow.call(5), double.call(2)]
    made = await hw.enqueue_many(calls)
    assert [(await job.status()).task for job in made] == ["double", "shout", "two", "double"]
    await hw.run_until_idle()
    assert [await job.result() for job in made] == [2, "A", 5, 4]
    assert hw.enqueue_many_sync([]) == []


async def test_of_several_tasks_all_are_made_or_none(hw: Headway, dsn: str) -> None:
    @hw.task
    async def plain() -> None: ...

    @hw.task(unique=Unique("only", policy="reject"))
    async def only() -> None: ...

    await only.enqueue()
    with pytest.raises(KeyTaken):
        await hw.enqueue_many([plain.call(), only.call()])
    assert await hw.jobs.count(task="plain") == 0
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        (job,) = await hw.enqueue_many([plain.call()], conn=conn)
        await conn.rollback()
    with pytest.raises(JobNotFound):
        await job.status()


@pytest.mark.parametrize("calls", [5, [5], [{"n": 1}], None])
async def test_what_is_not_a_list_of_calls_is_refused(hw: Headway, calls: Any) -> None:
    with pytest.raises(InvalidInput):
        await hw.enqueue_many(calls)


async def test_a_call_that_is_given_twice_is_refused(hw: Headway) -> None:
    @hw.task
    async def welcome(n: int) -> None: ...

    call = welcome.call(1)
    with pytest.raises(InvalidInput):
        await hw.enqueue_many([call, call])
    with pytest.raises(InvalidInput):
        welcome.enqueue_many_sync([call, call])
    assert await hw.jobs.count() == 0


async def test_a_call_of_another_app_is_refused(hw: Headway) -> None:
    other = Headway(hw.dsn, schema="another")

    @other.task
    async def welcome(n: int) -> None: ...

    with pytest.raises(InvalidInput):
        await hw.enqueue_many([welcome.call(1)])
    assert await hw.jobs.count() == 0


async def test_g1_a_call_with_a_connection_of_its_own_is_refused(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """The call would be enqueued in another transaction than that of its connection."""

    @hw.task
    async def welcome(n: int) -> None: ...

    with pytest.raises(ConfigError):
        welcome.using(conn=db).call(1)
