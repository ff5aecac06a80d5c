"""The status of a service and its log (G7, H6)."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from headway.engine import service_status
from headway.engine.service_status import StatusTracker
from headway.errors import DatabaseError, DatabaseUnavailable

AWAY = DatabaseUnavailable("connection refused")


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(service_status, "monotonic", time)
    return time


@pytest.fixture
def track(time: Time) -> StatusTracker:
    return StatusTracker("job_loop")


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[logging.LogRecord]]:
    caplog.set_level("INFO", "headway.worker")
    return lambda: caplog.records


def _fail(track: StatusTracker, time: Time, *errors: Exception, every: float = 1.0) -> None:
    for error in errors:
        track.began()
        time.now += every
        track.failed(error, expected=isinstance(error, DatabaseUnavailable))


def test_g7_a_service_that_works_has_nothing_to_say(track: StatusTracker, time: Time, said) -> None:
    track.began()
    time.now += 5
    assert track.status().busy_for == 5
    track.works()
    assert (track.status().unwell_for, track.well_at, said()) == (0, time.now, [])


def test_g7_a_service_fails_since_the_first_turn_of_a_row_began(
    track: StatusTracker, time: Time
) -> None:
    began = time.now
    _fail(track, time, AWAY, AWAY, DatabaseError("no"))
    status = track.status()
    assert status.failing_for == time.now - began
    assert (status.failures, status.failed_in_all, status.error) == (3, 3, "no")
    track.began()
    track.works()
    status = track.status()
    assert (status.unwell_for, status.failures, status.failed_in_all) == (0, 0, 3)


def test_g7_a_turn_that_gets_no_answer_is_unwell(track: StatusTracker, time: Time) -> None:
    track.began()
    time.now += 45
    assert track.status().unwell_for == 45
    patient = StatusTracker("wake", waits_long=True)
    patient.began()
    time.now += 45
    assert patient.status().unwell_for == 0


def test_g7_an_error_is_shown_by_its_kind_where_its_words_may_be_secret(
    track: StatusTracker, time
) -> None:
    error = DatabaseError("the value 'hunter2' is odd")
    error.sqlstate = "22021"
    _fail(track, time, error)
    status = track.status()
    assert status.kind == "DatabaseError 22021"
    assert "hunter2" in status.words(named=True)
    assert "hunter2" not in status.words(named=False)


def test_h6_the_same_warning_is_not_repeated_at_every_try(
    track: StatusTracker, time: Time, said
) -> None:
    _fail(track, time, *[AWAY] * 25, every=0.5)
    assert [record.levelname for record in said()] == ["WARNING", "WARNING"]
    assert [record.failures for record in said()] == [1, 21]


def test_h6_a_flapping_service_does_not_repeat_itself_either(
    track: StatusTracker, time, said
) -> None:
    for _ in range(10):
        _fail(track, time, AWAY, every=0.1)
        track.began()
        track.works()
    assert [record.levelname for record in said()] == ["WARNING", "INFO"]


def test_h6_another_error_is_said_at_once_and_briefly(
    track: StatusTracker, time: Time, said
) -> None:
    _fail(track, time, AWAY, DatabaseUnavailable("host " * 300))
    assert len(said()) == 2
    assert len(said()[1].getMessage()) < 400


def test_g7_a_traceback_is_logged_once(track: StatusTracker, time: Time, said) -> None:
    _fail(track, time, *[ValueError("odd")] * 12)
    assert [(record.levelname, bool(record.exc_info)) for record in said()] == [
        ("ERROR", True),
        ("ERROR", False),
    ]


def test_g7_after_a_lease_it_is_an_error_and_once_per_lease(
    track: StatusTracker, time, said
) -> None:
    track.lease = 30
    _fail(track, time, *[AWAY] * 100)
    levels = [record.levelname for record in said()]
    assert levels == ["WARNING"] * 3 + ["ERROR"] * 3
    errors = said()[3:]
    assert [record.failing_for for record in errors] == [30, 60, 90]
    assert all(record.service == "job_loop" for record in errors)
    track.began()
    track.works()
    assert (said()[-1].levelname, said()[-1].getMessage()) == (
        "INFO",
        "job_loop works again after 1m 40s",
    )
