"""The database checks what is stored, on every path into `job` (S4, S11, S12, S18, S29)."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from headway.core.names import check_name
from headway.errors import ConfigError
from tests.sql.hand import Hand

POISON: dict[str, dict[str, Any]] = {
    "long queue": {"queue": "q" * 9000, "delay": 1},
    "long task": {"task": "t" * 201},
    "long step": {"step": "s" * 201},
    "long key": {"key": "k" * 9000, "ordered": True, "ttl": 3},
    "long unique key": {"unique_key": "u" * 201},
    "empty queue": {"queue": ""},
    "empty task": {"task": ""},
    "no queue": {"queue": None},
    "a task that is a step of a flow": {"task": "flow/step"},
    "a step of a step": {"step": "a/b"},
    "line break": {"queue": "a\nb"},
    "escape": {"task": "a\x1b[31m"},
    "C1": {"queue": "a\x9b31m"},
    "bidi": {"queue": "a\u202eb"},
    "invisible": {"queue": "\u200b"},
    "space at an end": {"queue": "a\u00a0"},
    "for ever": {"at": "infinity"},
    "since ever": {"at": "-infinity"},
    "year 20000": {"at": "20000-01-01 00:00+00"},
    "before Christ": {"at": "0001-01-01 00:00+00 BC"},
    "a delay that is not a number": {"delay": "NaN"},
    "a delay for ever": {"delay": "infinity"},
    "a delay of 1000 years": {"delay": 31_536_000_000},
    "a negative ttl": {"ttl": -5},
    "no attempts": {"max_attempts": 0},
    "fewer than no attempts": {"max_attempts": -5},
    "less than no room": {"key": "k", "key_limit": -1},
    "input that is an array": {"input": [1]},
    "input that is null": {"input": None},
    "headers that are an array": {"headers": [1]},
    "headers that are numbers": {"headers": {"a": 1}},
    "options that are text": {"options": "x"},
}


def _document(**fields: Any) -> Jsonb:
    plain = {"id": str(uuid4()), "task": "x", "queue": "q", "max_attempts": 2, "input": {}}
    return Jsonb([plain | fields])


@pytest.mark.parametrize("poison", POISON)
def test_s4_what_no_path_of_ours_makes_is_refused(hand: Hand, poison: str) -> None:
    before = hand.everything()
    with pytest.raises((psycopg.DataError, psycopg.IntegrityError)):
        hand.rows("select * from enqueue_jobs(%s, null, null)", _document(**POISON[poison]))
    assert hand.everything() == before


def test_s4_one_bad_job_of_a_call_costs_only_that_call(hand: Hand) -> None:
    good, bad = _document(), _document(**POISON["long queue"])
    hand.rows("select * from enqueue_jobs(%s, null, null)", good)
    with pytest.raises(psycopg.DataError):
        hand.rows("select * from enqueue_jobs(%s || %s, null, null)", good, bad)
    assert len(hand.claim("q", 10)) == 1


def test_s4_the_table_itself_refuses_what_would_stop_a_sweep(hand: Hand) -> None:
    """Also from the worker's role, which may write to it."""
    made = hand.enqueue()
    for change in (
        "run_at = 'infinity'",
        "created_at = '20000-01-01 00:00+00'",
        "expires_at = '-infinity'",
        "queue = repeat('q', 900)",
        "queue = ''",
        "key = repeat('k', 3000)",
        "max_attempts = 0",
        "attempt = -1",
        "key_limit = -1",
    ):
        with pytest.raises(psycopg.errors.CheckViolation):
            hand.rows(f"update job set {change} where id = %s", made)


NAMES = {
    "mail": True,
    "a b": True,
    "reports/eu": True,
    "größer": True,
    "日本": True,
    "می\u200cخواهم": True,  # Persian needs the zero-width non-joiner
    "x" * 200: True,
    "ü" * 200: True,
    "": False,
    " ": False,
    "x" * 201: False,
    "ü" * 201: False,
    " a": False,
    "a ": False,
    "a\u00a0": False,
    "\u3000a": False,
    "a\tb": False,
    "a\nb": False,
    "a\x1bb": False,
    "a\x7fb": False,
    "a\x85b": False,
    "a\x9bb": False,
    "\u200b": False,
    "a\u200eb": False,
    "a\u2028b": False,
    "a\u202eb": False,
    "a\u2066b": False,
    "\ufeffa": False,
}


@pytest.mark.parametrize("name", NAMES)
def test_s29_python_and_sql_have_one_rule_for_names(hand: Hand, name: str) -> None:
    assert hand.call("is_name", name) is NAMES[name]
    if NAMES[name]:
        assert check_name(name, "queue") == name
    else:
        with pytest.raises(ConfigError):
            check_name(name, "queue")


@pytest.mark.parametrize("value", ["1e131000", "-1e400", '"x"', "1.7976931348623157e308"])
def test_s12_a_number_that_python_cannot_read_is_refused(hand: Hand, value: str) -> None:
    call = f"""select enqueue('greet', '{{"x": [{value}]}}')"""
    if "e131" in value or "e400" in value:
        with pytest.raises(psycopg.DataError, match="range of a double"):
            hand.rows(call)
    else:
        assert hand.value(call)


@pytest.mark.parametrize(("levels", "fits"), [(198, True), (5000, False)])
def test_s12_input_that_is_nested_too_deeply_is_refused(
    hand: Hand, levels: int, fits: bool
) -> None:
    call = f"""select enqueue('greet', '{{"x": {"[" * levels}{"]" * levels}}}')"""
    if fits:
        assert hand.value(call)
    else:
        with pytest.raises(psycopg.DataError, match="levels deep"):
            hand.rows(call)


def test_s13_headers_count_towards_the_limit(hand: Hand) -> None:
    headers = Jsonb({"a": "x" * 9_000_000})
    input_ = Jsonb({"a": "x" * 9_000_000})
    with pytest.raises(psycopg.DataError, match="with its headers"):
        hand.rows("select enqueue('greet', %s, headers => %s)", input_, headers)
