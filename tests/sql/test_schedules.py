"""Schedules from any language: looked at, paused, resumed and run; and who may do what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from headway import Headway, Schedule
from tests.sql.hand import Hand
from tests.sql.test_roles import DENIED, acting, fresh, granted

__all__ = ["acting", "fresh", "granted"]  # fixtures


def put(hand: Hand, name: str = "nightly", **options: Any) -> None:
    """By an app, as it is in truth: only Python reads specs."""
    with Headway(hand.dsn, schema=hand.schema) as hw:

        @hw.task(name="report", queue="reports")
        def report(region: str = "eu") -> None: ...

        hw.schedules.put_sync(name, report, options.pop("spec", "@daily"), **options)


@pytest.fixture(autouse=True)
def _no_schedules(hand: Hand) -> Iterator[None]:
    hand.rows("delete from schedule")
    yield
    hand.rows("delete from schedule")


def test_the_view_shows_what_is_made_and_when(hand: Hand) -> None:
    assert hand.rows("select * from schedules") == []
    ends = hand.value("select now() + interval '1 day'")
    put(hand, input={"region": "us"}, overlap="skip", catch_up="all", ends_at=ends)
    row = hand.row("select * from schedules")
    assert row["name"] == "nightly"
    assert (row["task"], row["spec"], row["input"]) == ("report", "@daily", {"region": "us"})
    assert (row["owner"], row["declared"]) == ("", False)
    assert (row["catch_up"], row["overlap"], row["ends_at"]) == ("all", "skip", ends)
    assert (row["paused"], row["paused_at"], row["paused_by"]) == (False, None, None)
    assert (row["next_at"], row["last_at"], row["last_job"]) == (None, None, None)
    assert row["created_at"] == row["changed_at"]


async def test_the_view_shows_the_next_occurrence_once_a_worker_looked(
    hand: Hand, dsn: str
) -> None:
    hw = Headway(dsn, schema=hand.schema)

    @hw.task(schedule=Schedule("@every 1h", name="hourly"))
    async def report() -> None: ...

    await hw.run_until_idle()
    row = hand.row("select * from schedules")
    assert row["next_at"] - row["created_at"] == timedelta(hours=1)
    assert row["declared"] is True
    await hw.close()


def test_a_schedule_is_paused_and_resumed(hand: Hand) -> None:
    put(hand)
    assert hand.call("pause_schedule", "nightly", "holidays") is True
    row = hand.row("select * from schedules")
    assert (row["paused"], row["pause_reason"]) == (True, "holidays")
    assert row["paused_by"] == hand.value("select current_user")
    assert hand.call("pause_schedule", "nightly", actor="ada") is True
    assert hand.row("select * from schedules")["paused_by"] == "ada"
    assert hand.call("resume_schedule", "nightly") is True
    assert hand.call("resume_schedule", "nightly") is False
    assert hand.row("select * from schedules")["paused"] is False


def test_resuming_goes_on_from_now_and_workers_are_notified(hand: Hand) -> None:
    put(hand, spec="@every 1h")
    hand.rows("update schedule set done_until = now() - interval '1 day'")
    hand.call("pause_schedule", "nightly")
    with hand.listening() as heard:
        hand.call("resume_schedule", "nightly")
        assert heard() == ["schedule"]
    assert hand.value("select done_until > now() - interval '1 hour' from schedule") is True


def test_a_schedule_that_is_not_there_is_told_apart(hand: Hand) -> None:
    assert hand.call("pause_schedule", "gone") is False
    assert hand.call("resume_schedule", "gone") is False
    assert hand.call("run_schedule", "gone") is None


def test_a_schedule_is_run_now_paused_or_not(hand: Hand) -> None:
    put(hand, input={"region": "us"})
    hand.call("pause_schedule", "nightly")
    made = hand.call("run_schedule", "nightly")
    job = hand.row("select * from jobs where id = %s", made)
    assert (job["task"], job["queue"], job["state"]) == ("report", "reports", "ready")
    assert job["input"] == {"region": "us"}
    assert (job["headers"]["schedule"], job["headers"]["manual"]) == ("nightly", "true")
    assert hand.call("run_schedule", "nightly") != made
    assert hand.row("select * from schedules")["last_at"] is None


def test_a_run_that_the_schedule_would_skip_returns_the_job_that_is_there(hand: Hand) -> None:
    put(hand, overlap="skip")
    assert hand.call("run_schedule", "nightly") == hand.call("run_schedule", "nightly")
    assert hand.value("select count(*) from job") == 1


def test_what_a_transaction_undoes_did_not_happen(hand: Hand) -> None:
    put(hand)
    with hand.conn.transaction(force_rollback=True):
        hand.call("pause_schedule", "nightly")
        hand.call("run_schedule", "nightly")
    assert hand.row("select * from schedules")["paused"] is False
    assert hand.value("select count(*) from job") == 0


def test_a_schedule_that_is_held_by_a_caller_is_fired_later(hand: Hand, other: Hand) -> None:
    """A transaction that paused it and is still open holds up that schedule alone."""
    put(hand)
    put(hand, "free")
    with hand.conn.transaction():
        hand.call("pause_schedule", "nightly")
        assert other.call("run_schedule", "free") is not None
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.rows("select 1 from schedule where name = 'nightly' for update nowait")


# -- roles ----------------------------------------------------------------------------------------


@pytest.fixture
def owned(dsn: str, granted: str) -> Iterator[Hand]:
    """The owner's `Hand`, on the schema with roles and a schedule."""
    hand = Hand(dsn, granted)
    put(hand)
    yield hand
    hand.rows("delete from schedule")
    hand.close()


def test_a_reader_sees_schedules_and_changes_none(
    acting: Callable[[str], Hand], owned: Hand
) -> None:
    reader = acting("reader")
    assert reader.value("select name from schedules") == "nightly"
    for call in ("pause_schedule", "resume_schedule", "run_schedule"):
        with pytest.raises(DENIED):
            reader.call(call, "nightly")
    for query in ("update schedule set spec = ''", "select * from schedule for update"):
        with pytest.raises(DENIED):
            reader.rows(query)


def test_an_operator_changes_schedules_without_a_right_to_the_table(
    acting: Callable[[str], Hand], owned: Hand
) -> None:
    operator = acting("operator")
    assert operator.call("pause_schedule", "nightly", "holidays") is True
    row = operator.row("select * from schedules")
    assert row["paused_by"].endswith("_operator"), "not the owner, whose rights the function has"
    assert operator.call("resume_schedule", "nightly") is True
    assert operator.call("run_schedule", "nightly") is not None
    for query in (
        "update schedule set spec = ''",
        "delete from schedule",
        "table schedule for update",
    ):
        with pytest.raises(DENIED):
            operator.rows(query)


def test_a_producer_neither_sees_nor_changes_schedules(
    acting: Callable[[str], Hand], owned: Hand
) -> None:
    producer = acting("producer")
    for query in ("table schedules", "table schedule"):
        with pytest.raises(DENIED):
            producer.rows(query)
    for call in ("pause_schedule", "resume_schedule", "run_schedule"):
        with pytest.raises(DENIED):
            producer.call(call, "nightly")


def test_a_worker_may_fire(acting: Callable[[str], Hand], owned: Hand) -> None:
    worker = acting("worker")
    worker.rows("update schedule set done_until = now()")
    assert worker.call("run_schedule", "nightly") is not None
    assert worker.value(
        "select occurrence_job(job, name, new_id(), 'now', null) ->> 'task' from schedule"
    )
