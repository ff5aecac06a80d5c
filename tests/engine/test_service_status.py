"""What a service's track says of it, and what the log does (G7, H6)."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from headway.engine import track as track_module
from headway.engine.track import Track
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
    monkeypatch.setattr(track_module, "monotonic", time)
    return time


@pytest.fixture
def track(time: Time) -> Track:
    return Track("exchange")


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[logging.LogRecord]]:
    caplog.set_level("INFO", "headway.worker")
    return lambda: caplog.records


def _fail(track: Track, time: Time, *errors: Exception, every: float = 1.0) -> None:
    for error in errors:
        track.began()
        time.now += every
        track.failed(error, expected=isinstance(error, DatabaseUnavailable))


def test_g7_a_service_that_works_has_nothing_to_say(track: Track, time: Time, said) -> None:
    track.began()
    time.now += 5
    assert track.course().busy_for == 5
    track.works()
    assert (track.course().unwell_for, track.well_at, said()) == (0, time.now, [])


def test_g7_a_service_fails_since_the_first_turn_of_a_row_began(track: Track, time: Time) -> None:
    began = time.now
    _fail(track, time, AWAY, AWAY, DatabaseError("no"))
    course = track.course()
    assert course.failing_for == time.now - began
    assert (course.failures, course.failed_in_all, course.error) == (3, 3, "no")
    track.began()
    track.works()
    course = track.course()
    assert (course.unwell_for, course.failures, course.failed_in_all) == (0, 0, 3)


def test_g7_a_turn_that_gets_no_answer_is_unwell(track: Track, time: Time) -> None:
    track.began()
    time.now += 45
    assert track.course().unwell_for == 45
    patient = Track("wake", waits_long=True)
    patient.began()
    time.now += 45
    assert patient.course().unwell_for == 0


def test_g7_an_error_is_shown_by_its_kind_where_its_words_may_be_secret(track: Track, time) -> None:
    error = DatabaseError("the value 'hunter2' is odd")
    error.sqlstate = "22021"
    _fail(track, time, error)
    course = track.course()
    assert course.kind == "DatabaseError 22021"
    assert "hunter2" in course.words(named=True)
    assert "hunter2" not in course.words(named=False)


def test_h6_the_same_warning_is_not_repeated_at_every_try(track: Track, time: Time, said) -> None:
    _fail(track, time, *[AWAY] * 25, every=0.5)
    assert [record.levelname for record in said()] == ["WARNING", "WARNING"]
    assert [record.failures for record in said()] == [1, 21]


def test_h6_a_flapping_service_does_not_repeat_itself_either(track: Track, time, said) -> None:
    for _ in range(10):
        _fail(track, time, AWAY, every=0.1)
        track.began()
        track.works()
    assert [record.levelname for record in said()] == ["WARNING", "INFO"]


def test_h6_another_error_is_said_at_once_and_briefly(track: Track, time: Time, said) -> None:
    _fail(track, time, AWAY, DatabaseUnavailable("host " * 300))
    assert len(said()) == 2
    assert len(said()[1].getMessage()) < 400


def test_g7_a_traceback_is_logged_once(track: Track, time: Time, said) -> None:
    _fail(track, time, *[ValueError("odd")] * 12)
    assert [(record.levelname, bool(record.exc_info)) for record in said()] == [
        ("ERROR", True),
        ("ERROR", False),
    ]


def test_g7_after_a_lease_it_is_an_error_and_once_per_lease(track: Track, time, said) -> None:
    track.lease = 30
    _fail(track, time, *[AWAY] * 100)
    levels = [record.levelname for record in said()]
    assert levels == ["WARNING"] * 3 + ["ERROR"] * 3
    errors = said()[3:]
    assert [record.failing_for for record in errors] == [30, 60, 90]
    assert all(record.service == "exchange" for record in errors)
    track.began()
    track.works()
    assert (said()[-1].levelname, said()[-1].getMessage()) == (
        "INFO",
        "exchange works again after 1m 40s",
    )
