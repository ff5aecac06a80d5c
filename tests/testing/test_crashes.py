"""`crash_at`: the worker dies at a point that the test chooses, and another one recovers."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from headway import ConfigError, Context, Headway
from headway.testing import HeadwayFixture
from headway.testing.rigged import When
from tests.testing import shop


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    shop.done.clear()


@pytest.mark.parametrize(
    ("step", "when", "done"),
    [
        ("book_hotel", "before", ["hotel", "flight"]),
        ("trip/book_hotel", "after", ["hotel", "hotel", "flight"]),
        (shop.book_flight, "before", ["hotel", "flight"]),
        (shop.book_flight, "after", ["hotel", "flight", "flight"]),
    ],
)
def test_a_flow_goes_on_where_the_worker_crashed(
    headway: HeadwayFixture, step: object, when: When, done: list[str]
) -> None:
    headway.crash_at(step, when=when)
    job = shop.trip.enqueue_sync(city="Rome")
    headway.drain_sync()
    assert [name for name, _ in shop.done] == done  # type: ignore[misc, has-type, union-attr]
    assert job.result_sync() == {"booked": "Rome"}
    assert {one.outcome for one in job.attempts_sync()} == {"retried"}, "the crash is on record"


async def test_a_crash_counts_and_waits_for_its_back_off(headway: HeadwayFixture) -> None:
    headway.crash_at(shop.welcome, when="before")
    job = await shop.welcome.enqueue(1, "a")
    await headway.run_until_idle()
    status = await job.status()
    assert (status.state, status.attempt) == ("scheduled", 0)
    (attempt,) = await job.attempts()
    assert attempt.error is not None
    assert attempt.error["type"] == "WorkerLost"
    headway.advance("1m")
    await headway.run_until_idle()
    assert (await job.status()).state == "succeeded"


@pytest.fixture
def ledger(dsn: str) -> Iterator[psycopg.Connection[object]]:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("create table ledger (n integer)")
        yield conn
        conn.execute("drop table ledger")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_leaves_nothing_of_a_transaction(
    headway: HeadwayFixture, ledger: psycopg.Connection[object], when: When
) -> None:
    app = Headway()

    @app.task(transaction=True)
    async def pay(ctx: Context, n: int) -> None:
        await ctx.conn.execute("insert into ledger values (%s)", [n])
        await ctx.enqueue(receipt, n)

    @app.task
    async def receipt(n: int) -> None: ...

    headway.crash_at("pay", when=when)
    pay.enqueue_sync(7)
    headway.run_until_idle_sync()
    assert ledger.execute("select n from ledger").fetchall() == []
    headway.assert_not_enqueued(receipt)
    headway.drain_sync()
    assert ledger.execute("select n from ledger").fetchall() == [(7,)]
    assert headway.assert_enqueued(receipt, n=7).state == "succeeded"


@pytest.mark.parametrize(("step", "when"), [("book_hotle", "before"), ("book_hotel", "between")])
def test_a_place_that_does_not_exist_is_refused(
    headway: HeadwayFixture, step: str, when: When
) -> None:
    with pytest.raises(ConfigError):
        headway.crash_at(step, when=when)


def test_a_crash_that_does_not_happen_fails_the_test(headway: HeadwayFixture) -> None:
    headway.crash_at("book_hotel")
    headway.drain_sync()
    with pytest.raises(AssertionError, match="never reached"):
        headway._look_at_the_end()
    shop.trip.enqueue_sync(city="Rome")
    headway.drain_sync()
