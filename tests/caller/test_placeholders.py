"""placeholders.py: names become numbers, and each value has the type that psycopg would give it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from headway.store.caller.placeholders import numbered


def test_a_name_has_one_number_wherever_it_stands() -> None:
    sql = "select coalesce(%(now)s, now()), %(a)s::text where %(now)s is null and %(b)s = %(a)s"
    assert numbered(sql, {"b": None, "a": None, "now": None, "unused": 5}) == (
        "select coalesce($1, now()), $2::text where $1 is null and $3 = $2",
        (None, None, None),
    )


@pytest.mark.parametrize(
    ("value", "bare", "cast"),
    [
        (None, "$1", "$1::jsonb"),
        ("text", "$1", "$1::text::jsonb"),
        (True, "$1::boolean", "$1::boolean::jsonb"),
        (0.5, "$1::double precision", "$1::double precision::jsonb"),
        (datetime(2026, 1, 1, tzinfo=UTC), "$1::timestamptz", "$1::timestamptz::jsonb"),
        (2**15 - 1, "$1::smallint", "$1::smallint::jsonb"),
        (-(2**15), "$1::smallint", "$1::smallint::jsonb"),
        (2**15, "$1::integer", "$1::integer::jsonb"),
        (2**31, "$1::bigint", "$1::bigint::jsonb"),
        (2**63, "$1::numeric", "$1::numeric::jsonb"),
    ],
)
def test_a_value_says_its_type_but_for_text_that_has_none(value: Any, bare: str, cast: str) -> None:
    assert numbered("select %(v)s", {"v": value}) == (f"select {bare}", (value,))
    assert numbered("select %(v)s::jsonb", {"v": value}) == (f"select {cast}", (value,))


def test_what_no_statement_carries_is_refused() -> None:
    with pytest.raises(TypeError, match="not a type that statements use"):
        numbered("select %(v)s", {"v": [1]})
