"""The SQL files: who may write what, and that they agree with each other and with Python."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pytest

from headway.core.info import (
    Attempt,
    JobStatus,
    JobSummary,
    QueueInfo,
    QueueMetrics,
    ServerInfo,
    WorkerInfo,
)
from headway.store.connections.connect import Target
from headway.store.documents import NewJob
from headway.store.rows import (
    Claim,
    OutcomeRow,
)
from headway.store.statement import text
from headway.store.statements.fleet import Beat
from tests.architecture.source import PACKAGE, sql_files
from tests.store.samples import samples

_MOVES, _WRITES, _READS = sql_files("moves"), sql_files("writes"), sql_files("reads")
_FUNCTIONS = sql_files("functions")
_STATEMENTS = _MOVES | _WRITES | _READS
_FOLDERS = {"moves", "writes", "reads", "calls", "functions", "migrations", "parts"}


def _making(action: str, table: str) -> set[str]:
    pattern = re.compile(rf"\b{action}\s+{{schema}}\.{table}\b")
    return {name for name, sql in (_STATEMENTS | _FUNCTIONS).items() if pattern.search(sql)}


def _assigned(sql: str, table: str) -> set[str]:
    """The columns that updates of a table assign."""
    pattern = rf"update\s+{{schema}}\.{table}\b.*?\bset\b(.*?)\b(?:where|from|returning)\b"
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


def test_every_part_is_used_and_every_use_is_inlined() -> None:
    folder = PACKAGE / "store" / "sql"
    used = {
        name
        for path in folder.rglob("*.sql")
        for name in re.findall(r"{part (\w+)", path.read_text("utf-8"))
    }
    assert used == {path.stem for path in (folder / "parts").iterdir()}
    for name, sql in (_STATEMENTS | _FUNCTIONS).items():
        assert not re.search(r"{(part|of)\b", sql), name


def test_a_rule_that_is_a_part_is_written_nowhere_else() -> None:
    """Migrations are texts of their own: they never change with a part."""
    rules = (
        r"'ready '",
        r"step when '' then [\w{}.]*task\b",
        r"insert into {schema}\.archive\b",
        r"when [\w{}.]*ordered then 0",
        r"\b(168|720) hours",
        r"\b32000\)",
        r"\.burst \+ 1\)",
    )
    folder = PACKAGE / "store" / "sql"
    paths = {path for path in folder.rglob("*.sql") if path.parent.name != "migrations"}
    for rule in rules:
        homes = {path for path in paths if re.search(rule, path.read_text("utf-8"))}
        assert len(homes - set((folder / "parts").iterdir())) == 0, rule
        assert homes, f"{rule} finds its part"


def test_reads_write_nothing() -> None:
    for name, sql in _READS.items():
        assert not re.search(r"\b(insert\s+into|update|delete\s+from|pg_notify|nextval)\b", sql), (
            name
        )


def test_only_enqueue_makes_jobs_and_revive_brings_them_back() -> None:
    assert _making(r"insert\s+into", "job") == {"functions/3_jobs", "moves/revive"}
    assert "{schema}.enqueue_jobs(" in _MOVES["moves/enqueue"]
    # Plain jobs are inserted into a view, whose defaults and condition are the state and the checks.
    plain = {"writes/enqueue_one", "writes/enqueue_one_in", "writes/enqueue_alike"}
    assert _making(r"insert\s+into", "new_jobs") == plain


def test_only_moves_end_jobs() -> None:
    ends = {"moves/finish", "moves/cancel", "moves/purge", "moves/expire", "moves/rescue"}
    # Withdrawing undoes a repeated enqueue: the job is in the archive already.
    assert _making(r"delete\s+from", "job") == ends | {"functions/3_jobs"}
    assert "{schema}.withdraw_jobs(" in _MOVES["moves/withdraw"]
    assert _making(r"insert\s+into", "archive") == ends
    assert _making(r"delete\s+from", "archive") == {"moves/revive"}
    # An ended job may be corrected before it is tried again.
    assert _making("update", "archive") == {"writes/edit"}
    assert _assigned(_WRITES["writes/edit"], "archive") == {"input"}
    assert _making("update", "attempt") == set()
    assert _making(r"delete\s+from", "attempt") == set()


def test_only_moves_write_the_state_of_a_job() -> None:
    assert _making("update", "job") == {
        "moves/claim",
        "moves/claim_plain",
        "moves/admit",
        "moves/unadmit",
        "moves/advance",
        "moves/requeue",
        "moves/promote",
        "moves/gather",
        "moves/rescue",
        "moves/revive",
        "moves/transfer",  # the queue, and the place in it; the state stays
        "writes/progress",
        "writes/edit",
        "writes/mark_limited",  # what runs counts under a new limit, too
        "functions/3_jobs",  # a unique key's holder is replaced where it waits
        "functions/3_groups",  # a new follow-up waits
    }
    written = {name: _assigned(sql, "job") for name, sql in _WRITES.items()}
    assert {name: columns for name, columns in written.items() if columns} == {
        "writes/progress": {"progress"},
        "writes/edit": {"input"},
        "writes/mark_limited": {"limited"},
    }


def test_functions_for_sql_move_jobs_by_the_engine_s_own_text() -> None:
    """Inlined files exist, and every move that a consumer or an operator needs is inlined."""
    inlined = {
        f"{kind}s/{name}"
        for sql in _FUNCTIONS.values()
        for kind, name in re.findall(r"{(move|write|read) (\w+)}", sql)
    }
    assert inlined <= _STATEMENTS.keys()
    needed = {
        "claim",
        "finish",
        "advance",
        "requeue",
        "unadmit",
        "admit",
        "promote",
        "gather",
        "rescue",
        "expire",
    }
    needed |= {"revive", "cancel", "purge", "transfer"}
    assert {f"moves/{move}" for move in needed} <= inlined


def test_i9_only_admit_gives_room_under_a_key() -> None:
    giving = {name for name, sql in _MOVES.items() if re.search(r"\bholds\s*=\s*true\b", sql)}
    assert giving == {"moves/admit"}
    keeping = {name for name, sql in _MOVES.items() if "holds" in _assigned(sql, "job")} - giving
    assert keeping == {"moves/requeue", "moves/advance", "moves/rescue", "moves/unadmit"}
    assert "holds = false" in _MOVES["moves/unadmit"]
    assert "holds = j.holds and" in _MOVES["moves/rescue"]
    assert "holds = j.holds and" in _MOVES["moves/requeue"]
    assert re.search(r"j\.holds and .* as stays", _MOVES["moves/advance"])


def test_i3_only_a_claim_counts_claims_and_attempts_up() -> None:
    counting = {name: _assigned(sql, "job") & {"claim", "attempt"} for name, sql in _MOVES.items()}
    assert {name: found for name, found in counting.items() if found} == {
        "moves/claim": {"claim", "attempt"},
        "moves/claim_plain": {"claim", "attempt"},
        "moves/requeue": {"attempt"},
        "moves/advance": {"attempt"},
        "moves/rescue": {"attempt"},
    }
    # It counts in the upper half, and is drawn at random in the lower.
    drawn = (
        r"claim = \(\(\(claim >> 32\) \+ 1\) << 32\) \+ floor\(random\(\) \* 4294967296\)::bigint"
    )
    for claim in ("moves/claim", "moves/claim_plain"):
        assert re.search(drawn, text(claim, "s"))
        assert re.search(r"attempt = attempt \+ 1\b", _MOVES[claim])
    assert re.search(r"attempt = j.attempt - v.given_back::integer", _MOVES["moves/requeue"])
    assert re.search(r"attempt = j.attempt - \(not h.consumes\)::integer", _MOVES["moves/rescue"])
    assert re.search(r"\battempt = 0\b", _MOVES["moves/advance"]), "each step has its own"


def test_i4_what_is_written_about_a_running_job_is_fenced() -> None:
    fenced = ("moves/finish", "moves/requeue", "moves/advance", "writes/progress", "reads/held")
    for name in fenced:
        sql = _STATEMENTS[name]
        assert re.search(
            r"j\.id = (\w)\.job_id\b.*?\bj\.claim = \1\.claim\b.*?\bj\.state = 'x'", sql, re.DOTALL
        ), name


def test_settling_does_not_mention_the_worker_where_it_looks_for_jobs() -> None:
    """With `worker_id` in its condition the planner would take the index of held jobs."""
    changed = r"(?:delete from|update) {schema}\.job j\b.*?\bwhere\b(.*?)\breturning\b"
    joined = r"join {schema}\.job j\s+on\b(.*?)\bfor no key update\b"
    for name, pattern in (
        ("moves/finish", changed),
        ("moves/requeue", changed),
        ("moves/advance", joined),
    ):
        conditions = re.findall(pattern, _MOVES[name], re.DOTALL)
        assert conditions, name
        assert not any("worker" in condition for condition in conditions), name


def test_states_are_literals() -> None:
    """A parameter hides the partial indexes from the planner."""
    for name, sql in (_MOVES | _WRITES).items():
        assert not re.search(r"\bstate\s*(=|in)\s*\(?\s*%\(", sql), name


@pytest.mark.parametrize("name", _STATEMENTS)
def test_g10_every_statement_can_be_given_the_moment(name: str) -> None:
    sql = _STATEMENTS[name]
    alone = re.sub(r"coalesce\(%\(now\)s, (now|statement_timestamp)\(\)\)", "", sql)
    # A function is given it as it is, and does the same with it (below).
    alone = re.sub(
        r"({schema}\.\w+\((?:[^()]|%\(\w+\)s)*), %\(now\)s::timestamptz\)", r"\1)", alone
    )
    if name != "reads/server":  # it is there to say what the server's clock says
        assert "now()" not in alone, "time that a test cannot choose"
    assert "%(now)s" not in alone
    assert not re.search(
        r"\b(clock_timestamp|statement_timestamp|current_timestamp|localtimestamp|current_date)\b",
        alone,
    )


def test_g10_a_function_that_is_given_the_moment_asks_no_other_clock() -> None:
    for name, sql in _FUNCTIONS.items():
        for body in re.findall(r"\bmoment timestamptz.*?(?=create or replace|\Z)", sql, re.DOTALL):
            alone = re.sub(r"coalesce\(moment, now\(\)\)", "", body)
            alone = re.sub(r"select {schema}\.add_partitions\(now\(\), \d+\);", "", alone)
            assert not re.search(r"\bnow\(\)|clock_timestamp", alone), name


@pytest.mark.parametrize("name", [*_STATEMENTS, *_FUNCTIONS])
def test_every_table_is_named_with_its_schema(name: str) -> None:
    sql = (_STATEMENTS | _FUNCTIONS)[name]
    tables = (
        r"job|archive|attempt|worker|leader|queue|awaited|jobs|queues|migration|task|unique_period"
        r"|stop_request|drain_request|unkept"
    )
    bare = re.findall(rf"\b(?:from|join|insert\s+into|update)\s+({tables})\b(?!\s*[(.])", sql)
    inner = set(re.findall(r"(\w+)(?:\([^)]*\))? as (?:materialized )?\(", sql))
    assert set(bare) <= inner


# -- columns and fields ---------------------------------------------------------------------------


def _columns(db: psycopg.Connection[Any], schema: str, name: str) -> list[str]:
    statement = samples(Target("", schema))[name]
    cursor = db.execute(text(name, schema), statement.params)
    return [column.name for column in cursor.description or ()]


def _fields(kind: Any) -> list[str]:
    return list(kind.__dataclass_fields__)


@pytest.mark.parametrize("name", ["moves/claim", "moves/claim_plain", "reads/orphans"])
def test_a_claim_is_what_its_statements_return(
    db: psycopg.Connection[Any], schema: str, name: str
) -> None:
    columns = _columns(db, schema, name)
    assert ["number" if column == "claim" else column for column in columns] == _fields(Claim)


def test_the_fields_of_documents_are_words() -> None:
    """`id` and `at` are the words that enqueue() has for them."""
    columns = re.compile(r"jsonb_to_record(?:set)?\([^;]*?\)\s+as \w+\(([^)]*?)\)", re.DOTALL)
    for name, sql in (_STATEMENTS | _FUNCTIONS).items():
        fields = [c.split()[0] for found in columns.findall(sql) for c in found.split(",")]
        assert [f for f in fields if len(f) < 3 and f not in ("id", "at")] == [], name


def test_a_new_job_is_the_type_that_functions_take(db: psycopg.Connection[Any]) -> None:
    taken = db.execute(
        "select attname from pg_attribute where attrelid = 'new_job'::regclass and attnum > 0"
    )
    assert {name for (name,) in taken} == set(NewJob.__struct_fields__)


_ROWS = {
    "reads/attempts": Attempt,
    "reads/outcome": OutcomeRow,
    "reads/workers": WorkerInfo,
    "reads/queues": QueueInfo,
    "reads/metrics": QueueMetrics,
    "reads/server": ServerInfo,
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
    assert whole == set(_fields(JobStatus))
    assert narrow == set(_fields(JobSummary))


def _table(db: psycopg.Connection[Any], table: str) -> list[str]:
    return [c.name for c in db.execute(f"select * from {table} limit 0").description or ()]


def test_i7_the_archive_keeps_every_column_of_a_job_that_means_anything_after_its_end(
    db: psycopg.Connection[Any],
) -> None:
    # Its place, its room, what it counts under and a suspicion: over with the job.
    lost = {"seq", "holds", "limited", "rated_in", "crashes"}
    kept = {"started_at" if c == "claimed_at" else c for c in _table(db, "job")} - lost
    new = {"finished_at", "kept_until", "result", "error", "spilled"}
    assert set(_table(db, "archive")) == kept | new


def test_i7_every_way_to_end_a_job_keeps_the_same_columns(db: psycopg.Connection[Any]) -> None:
    for name, sql in _MOVES.items():
        found = re.search(r"insert into {schema}\.archive \((.*?)\)", sql, re.DOTALL)
        if found:
            listed = {column.strip() for column in found[1].split(",")}
            unnamed = set(_table(db, "archive")) - listed - {"spilled"}  # set by a sweep only
            assert unnamed == set(), name


def test_i7_a_revived_job_is_the_one_that_ended(db: psycopg.Connection[Any]) -> None:
    found = re.search(r"insert into {schema}\.job \((.*?)\)", _MOVES["moves/revive"], re.DOTALL)
    assert found
    listed = {column.strip() for column in found[1].split(",")}
    reset = {"seq", "claimed_at", "expires_at", "worker_id", "attempt", "crashes", "progress"}
    reset |= {"holds", "limited", "rated_in"}
    assert set(_table(db, "job")) - listed == reset
