"""The fixture `headway` on a small project: isolation, running, looking, failures."""

from __future__ import annotations

import pytest

from headway import Headway
from headway.testing import HeadwayFixture, JobsFailed
from tests.testing import shop


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    shop.done.clear()


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_has_an_empty_schema(headway: HeadwayFixture, turn: int) -> None:
    assert headway.enqueued() == []
    job = shop.welcome.enqueue_sync(turn, "ada@example.com")
    assert headway.assert_enqueued(shop.welcome, email="ada@example.com").state == "ready"
    headway.run_until_idle_sync()
    assert shop.done == [("welcome", turn, "smtp")]
    assert job.result_sync() == "ada@example.com"
    assert headway.assert_enqueued(shop.welcome, user_id=turn).state == "succeeded"


async def test_an_async_test_runs_jobs_too(headway: HeadwayFixture) -> None:
    job = await shop.welcome.enqueue(7, "ada@example.com")
    headway.assert_enqueued("welcome", user_id=7)
    report = await headway.run_until_idle()
    assert report.settled == {"succeed": 1}
    assert await job.result() == "ada@example.com"


def test_the_app_is_itself_again_after_the_test() -> None:
    assert shop.hw.dsn == "postgresql://nobody@127.0.0.1:1/production"
    assert shop.hw.settings["worker.lease"].value == "30s"


def test_an_app_made_in_the_test_is_redirected(headway: HeadwayFixture) -> None:
    inner = Headway("postgresql://nobody@127.0.0.1:1/production")

    @inner.task
    def inside() -> int:
        return 3

    job = inside.enqueue_sync()
    headway.run_until_idle_sync()
    assert job.result_sync() == 3
    assert inner.schema == shop.hw.schema, "apps of one place share a schema"
    assert Headway("postgresql://other@127.0.0.1:1/x").schema != shop.hw.schema


def test_a_failing_attempt_fails_the_test(headway: HeadwayFixture) -> None:
    shop.charge.enqueue_sync(5)
    with pytest.raises(JobsFailed) as caught:
        headway.run_until_idle_sync()
    (failure,) = caught.value.failures
    assert (failure.handler, failure.attempt, failure.final) == ("charge", 1, False)
    assert isinstance(caught.value.__cause__, shop.Declined)


def test_a_retry_that_succeeds_in_a_drain_is_no_failure(headway: HeadwayFixture) -> None:
    job = shop.charge.enqueue_sync(5, ok_from=3)
    headway.drain_sync()
    assert shop.done == [("charge", 5, 1), ("charge", 5, 2), ("charge", 5, 3)]
    assert job.status_sync().state == "succeeded"


def test_an_expected_failure_fails_nothing(headway: HeadwayFixture) -> None:
    shop.charge.enqueue_sync(5)
    with headway.expect_failure(shop.charge, shop.Declined, match="no 5") as expected:
        headway.drain_sync()
    assert [one.attempt for one in expected.failures] == [1, 2, 3]
    assert expected.failure.final


@pytest.mark.parametrize(
    ("task", "error", "match"),
    [("welcome", None, None), (None, "Fatal", None), (None, None, "no 6")],
)
def test_a_failure_of_another_kind_is_not_expected(
    headway: HeadwayFixture, task: str | None, error: str | None, match: str | None
) -> None:
    shop.charge.enqueue_sync(5)
    with pytest.raises(JobsFailed), headway.expect_failure(task, error, match=match):
        headway.run_until_idle_sync()


def test_an_expected_failure_must_come(headway: HeadwayFixture) -> None:
    shop.welcome.enqueue_sync(1, "a")
    with pytest.raises(AssertionError, match="none came"), headway.expect_failure():
        headway.run_until_idle_sync()


async def test_a_failure_that_nobody_looked_at_fails_the_test(headway: HeadwayFixture) -> None:
    await shop.charge.enqueue(-1)
    await shop.hw.run_until_idle()
    with pytest.raises(JobsFailed, match="a negative amount"):
        headway._look_at_the_end()


@pytest.mark.parametrize(
    ("args", "times"), [({"user_id": 1}, 2), ({"user_id": 3}, 0), ({"email": "x"}, 0)]
)
def test_an_assertion_about_enqueued_jobs_fails(
    headway: HeadwayFixture, args: dict[str, object], times: int
) -> None:
    shop.welcome.enqueue_many_sync([{"user_id": 1, "email": mail} for mail in "ab"])
    assert (
        len([one for one in headway.enqueued(shop.welcome) if args.items() <= one.args.items()])
        == times
    )
    with pytest.raises(AssertionError, match="welcome"):
        headway.assert_enqueued(shop.welcome, **args)
    if times:
        with pytest.raises(AssertionError, match="was enqueued"):
            headway.assert_not_enqueued(shop.welcome, **args)
    else:
        headway.assert_not_enqueued(shop.welcome, **args)


def test_a_flow_is_found_by_the_arguments_of_its_first_step(headway: HeadwayFixture) -> None:
    shop.trip.enqueue_sync(city="Rome")
    headway.run_until_idle_sync()
    assert headway.assert_enqueued(shop.trip, city="Rome").state == "succeeded"
    assert shop.done == [("hotel", "Rome"), ("flight", "Rome")]


def test_a_handler_that_waits_for_ever_does_not_hang_the_test(headway: HeadwayFixture) -> None:
    shop.slow.enqueue_sync()
    with pytest.raises(AssertionError, match="jobs still ran"):
        headway.run_until_idle_sync(within="0.5s")


def test_overrides_last_for_one_test(headway: HeadwayFixture) -> None:
    shop.hw.dependency_overrides[shop.sender] = lambda: "fake"
    shop.welcome.enqueue_sync(1, "a")
    headway.run_until_idle_sync()
    assert shop.done == [("welcome", 1, "fake")]
    headway._redirection.undo()  # as the end of the test does
    assert shop.hw.dependency_overrides == {}
