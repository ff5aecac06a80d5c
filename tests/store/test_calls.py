"""sql/calls: user code runs a statement by the function that has its text and the owner's rights."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pytest

from headway.store.connections.connect import Target
from headway.store.rights import role_for
from headway.store.statement import client_text, text
from tests.architecture.source import sql_files
from tests.store.samples import samples

_CALLS = {name.partition("/")[2]: sql for name, sql in sql_files("calls").items()}
_STATEMENTS = {name.partition("/")[2]: name for name in sql_files("moves", "writes")}


def _parameters(sql: str) -> set[str]:
    return set(re.findall(r"%\((\w+)\)s", sql))


@pytest.mark.parametrize("call", _CALLS)
def test_a_call_is_given_and_answers_what_its_statement_does(
    db: psycopg.Connection[Any], schema: str, call: str
) -> None:
    name = _STATEMENTS[call]
    sample = samples(Target("", schema))[name]
    assert _parameters(_CALLS[call]) == _parameters(text(name, schema))
    with db.transaction(force_rollback=True):
        direct = db.execute(text(name, schema), sample.params).description or ()
        called = db.execute(client_text(name, schema), sample.params).description or ()
        assert [column.type_code for column in called] == [column.type_code for column in direct]


def test_every_statement_of_operators_is_called() -> None:
    """But for those that call functions by themselves."""
    operated = {name for name in _STATEMENTS.values() if role_for(name) == "operator"}
    called = {_STATEMENTS[call] for call in _CALLS}
    assert operated - {"writes/retry"} == called - {"writes/await"}
    assert role_for("writes/await") == "reader"
    assert client_text("writes/retry", "x") == text("writes/retry", "x")
