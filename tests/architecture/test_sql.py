"""The SQL files: who may write what, and that they agree with each other and with Python."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pytest

from headway.handle import JobStatus
from headway.store.connect import Target
from headway.store.fleet import Beat
from headway.store.rows import (
    AttemptRow,
    Claim,
    JobRow,
    OutcomeRow,
    QueueRow,
    ServerRow,
    WorkerRow,
)
from headway.store.statement import text
from tests.architecture.source import PACKAGE, sql_files
from tests.store.samples import samples

_MOVES, _WRITES, _READS = sql_files("moves"), sql_files("writes"), sql_files("reads")
_FOLDERS = {"moves", "writes", "reads", "migrations"}


def _making(action: str, table: str) -> set[str]:
    pattern = re.compile(rf"\b{action}\s+{{schema}}\.{table}\b")
    return {name for name, sql in (_MOVES | _WRITES | _READS).items() if pattern.search(sql)}


def _assigned(sql: str, table: str) -> set[str]:
    """The columns that updates of a table assign."""
    pattern = rf"update\s+{{schema}}\.{table}\b.*?\bset\b(.*?)\b(?:where|from verdict|returning)\b"
    lists = re.findall(pattern, sql, re.DOTALL)
    return {name for part in lists for name in re.findall(r"(?:^|,)\s*(\w+)\s*=", part)}


def test_there_are_no_other_folders_of_sql() -> None:
    assert {path.name for path in (PACKAGE / "store" / "sql").iterdir()} == _FOLDERS


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "store" / "sql").rglob("*.sql")), ids=lambda p: p.stem
)
def test_every_file_opens_with_what_it_is_for(path: Any) -> None:
    opening = path.read_text("utf-8").splitlines()[0]
    assert re.match(r"-- \S.{9,}", opening), f"{path.name} opens with {opening!r}"


def test_reads_write_nothing() -> None:
    for name, sql in _READS.items():
        assert not re.search(r"\b(insert\s+into|update|delete\s+from|pg_notify|nextval)\b", sql), (
            name
        )


def test_only_enqueue_makes_jobs_and_revive_brings_them_back() -> None:
    assert _making(r"insert\s+into", "job") == {"moves/enqueue", "moves/revive"}


def test_only_moves_end_jobs() -> None:
    ends = {"moves/finish", "moves/cancel", "moves/expire", "moves/rescue"}
    # Withdrawing undoes a repeated enqueue: the job is in the archive already.
    assert _making(r"delete\s+from", "job") == ends | {"moves/withdraw"}
    assert _making(r"insert\s+into", "archive") == ends
    assert _making(r"delete\s+from", "archive") == {"moves/revive"}
    assert _making("update", "archive") | _making("update", "attempt") == set()
    assert _making(r"delete\s+from", "attempt") == set()


def test_only_moves_write_the_state_of_a_job() -> None:
    assert _making("update", "job") == {
        "moves/claim",
        "moves/requeue",
        "moves/promote",
        "moves/cancel",
        "moves/rescue",
        "moves/revive",
        "writes/progress",
    }
    for name, sql in _WRITES.items():
        assert _assigned(sql, "job") <= {"progress"}, name


def test_i3_only_a_claim_counts_claims_and_attempts_up() -> None:
    counting = {name: _assigned(sql, "job") & {"claim", "attempt"} for name, sql in _MOVES.items()}
    assert {name: found for name, found in counting.items() if found} == {
        "moves/claim": {"claim", "attempt"},
        "moves/requeue": {"attempt"},
    }
    assert re.search(r"claim = claim \+ 1", _MOVES["moves/claim"])
    assert re.search(r"attempt = j.attempt - v.b::integer", _MOVES["moves/requeue"])


def test_i4_what_is_written_about_a_running_job_is_fenced() -> None:
    for name in ("moves/finish", "moves/requeue", "writes/progress", "reads/held"):
        sql = (_MOVES | _WRITES | _READS)[name]
        assert re.search(
            r"j\.id = \w\.i\b.*\bj\.claim = \w\.c\b.*\bj\.state = 'x'", sql
        ) or re.search(r"on j\.id = c\.i\s+where j\.claim = c\.c and j\.state = 'x'", sql), name


def test_settling_does_not_mention_the_worker_where_it_looks_for_jobs() -> None:
    """With `worker_id` in its condition the planner would take the index of held jobs."""
    for name in ("moves/finish", "moves/requeue"):
        conditions = re.findall(r"\bwhere\b(.*?)\breturning\b", _MOVES[name], re.DOTALL)
        assert conditions
        assert not any("worker" in condition for condition in conditions), name


def test_states_are_literals() -> None:
    """A parameter hides the partial indexes from the planner."""
    for name, sql in (_MOVES | _WRITES).items():
        assert not re.search(r"\bstate\s*(=|in)\s*\(?\s*%\(", sql), name


@pytest.mark.parametrize("name", [*_MOVES, *_WRITES, *_READS])
def test_g10_every_statement_can_be_given_the_moment(name: str) -> None:
    sql = (_MOVES | _WRITES | _READS)[name]
    alone = re.sub(r"coalesce\(%\(now\)s, now\(\)\)", "", sql)
    if name != "reads/server":  # it is there to say what the server's clock says
        assert "now()" not in alone, "time that a test cannot choose"
    assert "%(now)s" not in alone
    assert not re.search(
        r"\b(clock_timestamp|current_timestamp|localtimestamp|current_date)\b", sql
    )


@pytest.mark.parametrize("name", [*_MOVES, *_WRITES, *_READS])
def test_every_table_is_named_with_its_schema(name: str) -> None:
    sql = (_MOVES | _WRITES | _READS)[name]
    tables = r"job|archive|attempt|worker|duty|queue|awaited|jobs|queues|migration"
    bare = re.findall(rf"\b(?:from|join|into|update)\s+({tables})\b(?!\s*\()", sql)
    inner = set(re.findall(r"(\w+)(?:\([^)]*\))? as (?:materialized )?\(", sql))
    assert set(bare) <= inner


# -- columns and fields ---------------------------------------------------------------------------


def _columns(db: psycopg.Connection[Any], schema: str, name: str) -> list[str]:
    statement = samples(Target("", schema))[name]
    cursor = db.execute(text(name, schema), statement.params)
    return [column.name for column in cursor.description or ()]


def _fields(kind: Any) -> list[str]:
    return list(kind.__dataclass_fields__)


@pytest.mark.parametrize("name", ["moves/claim", "reads/orphans"])
def test_a_claim_is_what_its_statements_return(
    db: psycopg.Connection[Any], schema: str, name: str
) -> None:
    columns = _columns(db, schema, name)
    assert ["number" if column == "claim" else column for column in columns] == _fields(Claim)


_ROWS = {
    "reads/attempts": AttemptRow,
    "reads/outcome": OutcomeRow,
    "reads/workers": WorkerRow,
    "reads/queues": QueueRow,
    "reads/server": ServerRow,
    "writes/heartbeat": Beat,
}


@pytest.mark.parametrize("name", _ROWS)
def test_a_row_is_what_its_statement_returns(
    db: psycopg.Connection[Any], schema: str, name: str
) -> None:
    columns = _columns(db, schema, name)
    assert ["worker" if c == "worker_id" else c for c in columns] == _fields(_ROWS[name])


def test_a_job_is_what_its_statements_return(db: psycopg.Connection[Any], schema: str) -> None:
    whole = {"worker" if c == "worker_id" else c for c in _columns(db, schema, "reads/job")}
    narrow = {"worker" if c == "worker_id" else c for c in _columns(db, schema, "reads/jobs")}
    assert whole == set(_fields(JobRow)) == set(_fields(JobStatus))
    assert narrow == whole - {"input", "result", "headers", "progress", "expires_at", "cancelling"}


def _table(db: psycopg.Connection[Any], table: str) -> list[str]:
    return [c.name for c in db.execute(f"select * from {table} limit 0").description or ()]


def test_i7_the_archive_keeps_every_column_of_a_job_that_means_anything_after_its_end(
    db: psycopg.Connection[Any],
) -> None:
    lost = {"seq", "cancelling", "progress"}  # its place, a request and a hint: over with the job
    kept = {"started_at" if c == "claimed_at" else c for c in _table(db, "job")} - lost
    assert set(_table(db, "archive")) == kept | {"finished_at", "result", "error"}


def test_i7_every_way_to_end_a_job_keeps_the_same_columns(db: psycopg.Connection[Any]) -> None:
    for name, sql in _MOVES.items():
        found = re.search(r"insert into {schema}\.archive \((.*?)\)", sql, re.DOTALL)
        if found:
            listed = {column.strip() for column in found[1].split(",")}
            unnamed = set(_table(db, "archive")) - listed
            assert unnamed == (set() if name == "moves/finish" else {"result"}), name


def test_i7_a_revived_job_is_the_one_that_ended(db: psycopg.Connection[Any]) -> None:
    found = re.search(r"insert into {schema}\.job \((.*?)\)", _MOVES["moves/revive"], re.DOTALL)
    assert found
    listed = {column.strip() for column in found[1].split(",")}
    anew = {"seq", "claimed_at", "expires_at", "worker_id", "attempt", "cancelling", "progress"}
    assert set(_table(db, "job")) - listed == anew
