"""Log lines: for people and for programs."""

from __future__ import annotations

import json
import logging
from uuid import UUID

import pytest

from headway.engine.logs import JsonFormatter, TextFormatter

JOB = {"job_id": "0190", "task": "welcome", "attempt": 2, "queue": "mail"}


def _record(name: str = "headway.job", **extra: object) -> logging.LogRecord:
    logger = logging.getLogger(name)
    return logger.makeRecord(
        name, logging.WARNING, __file__, 1, "hello %s", ("ada",), None, extra=extra
    )


def test_a_json_line_has_the_job_as_fields() -> None:
    line = json.loads(JsonFormatter().format(_record(**JOB, colour="red")))
    assert line.items() >= (JOB | {"colour": "red"}).items()
    assert (line["level"], line["logger"], line["message"]) == (
        "warning",
        "headway.job",
        "hello ada",
    )
    assert line["time"].endswith("+00:00")


def test_a_field_that_is_no_json_does_not_lose_the_line() -> None:
    line = json.loads(JsonFormatter().format(_record(thing=object(), loop={1, 2})))
    assert line["message"] == "hello ada"
    assert line["thing"].startswith("<object object")


def test_an_exception_comes_with_its_traceback() -> None:
    record = _record()
    try:
        raise ValueError("no")
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    assert "ValueError: no" in json.loads(JsonFormatter().format(record))["exception"]
    assert TextFormatter().format(record).endswith("ValueError: no")


def test_a_line_for_people_names_the_job() -> None:
    line = TextFormatter().format(_record(**JOB))
    assert line.endswith(
        "WARNING headway.job: hello ada  job_id=0190 task=welcome attempt=2 queue=mail"
    )


def test_the_workers_own_lines_name_the_job_already() -> None:
    assert TextFormatter().format(_record("headway.worker", **JOB)).endswith("hello ada")


@pytest.mark.parametrize("value", [UUID(int=7), None, 1.5, "text"])
def test_ordinary_values_are_fields_as_they_are(value: object) -> None:
    line = json.loads(JsonFormatter().format(_record(value=value)))
    assert line["value"] == (str(value) if isinstance(value, UUID) else value)


def test_s19_a_message_begins_no_line_and_steers_no_terminal() -> None:
    record = _record(**JOB, note="a\nFAKE")
    record.msg, record.args = "failed: %s", ("x\n00:00:00 ERROR FAKE \x1b[2J\x9b\u202e",)
    (line,) = TextFormatter().format(record).splitlines()
    assert "x\\n00:00:00 ERROR FAKE \\x1b[2J\\x9b\\u202e" in line
    assert "note=a\\nFAKE" in line


def test_s19_a_traceback_is_indented_and_steers_no_terminal() -> None:
    record = _record()
    try:
        raise ValueError("x\n00:00:00 ERROR FAKE \x1b[2J")
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    first, *rest = TextFormatter().format(record).splitlines()
    assert first.endswith("hello ada")
    assert all(line.startswith("  ") for line in rest)
    assert rest[-1] == "  00:00:00 ERROR FAKE \\x1b[2J"
