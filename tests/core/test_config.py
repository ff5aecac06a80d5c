"""Defaults and options that check themselves."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway import Retention, WorkerOptions
from headway.core.config import check_priority, check_schema, keep_seconds
from headway.core.names import check_name
from headway.errors import ConfigError


@pytest.mark.parametrize(
    "name", ["mail", "a b", "reports/eu", "größer", "日本", "x" * 200, "a.b:c"]
)
def test_printable_text_is_a_name(name: str) -> None:
    assert check_name(name, "queue") == name


@pytest.mark.parametrize(
    "name",
    ["", " ", " mail", "mail ", "a\nb", "a\0b", "a\x7f", "x" * 201, "\ud800", None, 5, b"mail"],
)
def test_anything_else_is_refused_by_what_it_was_to_name(name) -> None:
    with pytest.raises(ConfigError, match=r"queue .* must be 1 to 200 printable characters"):
        check_name(name, "queue")


@pytest.mark.parametrize("schema", ["headway", "_x", "tenant_42", "a" * 48])
def test_a_plain_identifier_is_a_schema(schema: str) -> None:
    assert check_schema(schema) == schema


@pytest.mark.parametrize(
    "schema", ["", "Headway", "1st", "a-b", 'a"; drop schema b', "a" * 49, "a.b", "ä", "a\n"]
)
def test_a_schema_that_would_need_quoting_is_refused(schema: str) -> None:
    with pytest.raises(ConfigError, match="schema"):
        check_schema(schema)


@given(st.text(max_size=60))
def test_a_schema_that_passes_is_safe_inside_sql(schema: str) -> None:
    try:
        check_schema(schema)
    except ConfigError:
        return
    assert schema.isascii()
    assert schema.replace("_", "a").isalnum()
    assert schema == schema.lower()


@pytest.mark.parametrize("priority", [0, -32_768, 32_767])
def test_a_small_whole_number_is_a_priority(priority: int) -> None:
    assert check_priority(priority) == priority


@pytest.mark.parametrize("priority", [32_768, -32_769, 1.5, "5", True, None])
def test_any_other_priority_is_refused(priority) -> None:
    with pytest.raises(ConfigError, match="must be a whole number from -32768 to 32767"):
        check_priority(priority)


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"concurrency": -1},
        {"transactions": 0},
        {"batch": 0},
        {"lease": "500ms"},
        {"lease": "soon"},
        {"grace": -1},
        {"poll": "often"},
        {"poll_alone": None},
        {"queues": {"mail": 0}},
        {"queues": {"": 1}},
        {"queues": {"a\0": 1}},
    ],
)
def test_a_worker_s_option_that_cannot_be_right_is_refused(options) -> None:
    with pytest.raises(ConfigError):
        WorkerOptions(**options)


def test_a_worker_s_options_may_be_written_in_any_way_a_duration_may() -> None:
    options = WorkerOptions(lease=timedelta(seconds=10), grace=0, poll="1m", queues={"mail": 3})
    assert options.queues == {"mail": 3}


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (Retention(), (7 * 86_400, 30 * 86_400)),
        (Retention(succeeded=None, failed="1h"), (7 * 86_400, 3600)),
        (Retention(succeeded="none", failed=timedelta(days=1)), (None, 86_400)),
        (Retention(succeeded=0, failed="none"), (0, None)),
        (Retention(succeeded="forever"), (36_500 * 86_400, 30 * 86_400)),
    ],
    ids=str,
)
def test_finished_jobs_are_kept_by_how_they_ended(given: Retention, seconds) -> None:
    assert (given.succeeded_seconds, given.failed_seconds) == seconds


@pytest.mark.parametrize("word", ["None", "NONE", " none", "Forever", "null", ""])
def test_another_spelling_of_none_or_forever_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=r"^keep .*'none'"):
        keep_seconds(word)


@pytest.mark.parametrize("options", [{"succeeded": "for ever"}, {"failed": -1}, {"failed": True}])
def test_a_retention_that_is_not_a_duration_is_refused(options) -> None:
    (name,) = options
    with pytest.raises(ConfigError, match=f"^{name} .*'forever'"):
        Retention(**options)
