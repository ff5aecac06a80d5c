"""Every SQL file plans, and the hot ones read what they were written to read.

A plan is that of the engine's own connections: its settings, its prepared and generic plan, tables
full of jobs that wait and jobs that ended, and statistics that know of no running ones.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import store as store_package
from headway.core.verdict import Kind
from headway.store import migrate
from headway.store.statement import text
from headway.store.statements import jobs
from tests.store.plan import plan
from tests.store.samples import samples
from tests.store.store import NOW, Store, ask, engine_connection, new_job, verdict

_SQL = resources.files("headway.store") / "sql"
_FILES = sorted(
    f"{folder}/{file.name.removesuffix('.sql')}"
    for folder in ("moves", "writes", "reads")
    for file in (_SQL / folder).iterdir()
)
_MANY = 20_000


def test_every_file_has_exactly_one_constructor() -> None:
    named = Counter[str]()
    for file in Path(store_package.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Statement":
                (name, *_) = node.args
                assert isinstance(name, ast.Constant), f"{file.name} builds a statement's name"
                named[name.value] += 1
    assert named == Counter(_FILES)


def test_every_file_is_planned_below(store: Store) -> None:
    assert sorted(samples(store.target)) == _FILES


@pytest.mark.parametrize("name", _FILES)
def test_a_statement_plans_and_reads_what_comes_back(store: Store, name: str) -> None:
    """On an empty schema, with nothing of it in the search path."""
    statement = samples(store.target)[name]
    with engine_connection(store.dsn) as conn, conn.transaction(force_rollback=True):
        conn.execute("set search_path = ''")
        conn.execute(f"explain {text(name, store.schema)}", statement.params)
        store.run(statement, conn)


# -- full tables ----------------------------------------------------------------------------------


def _fill(store: Store) -> None:
    """Jobs that wait, jobs that ended, and nothing that runs."""
    worker = store.register(lease=10_000)
    for kind in ("succeed", "fail"):
        made = [new_job() for _ in range(_MANY // 2)]
        store.run(jobs.enqueue(store.quiet, made, store.now))
        claims = store.claim(worker, ask(room=_MANY), room=_MANY)
        assert len(claims) == len(made)
        _settle_all(store, claims, kind)
    for delay in (None, 60.0):
        made = [
            new_job(priority=n % 3, delay=delay, ttl=9e6 if n % 9 else None) for n in range(_MANY)
        ]
        store.run(jobs.enqueue(store.quiet, made, store.now))
    store.eyes.execute("vacuum analyze")


def _settle_all(store: Store, claims: list[Any], kind: Kind) -> None:
    settled = [jobs.Settled(claim, verdict(kind)) for claim in claims]
    assert store.run(jobs.finish(store.quiet, settled, store.now)) == {}


@contextmanager
def _schema(dsn: str, name: str) -> Iterator[Store]:
    """One of this file's own."""
    migrate.run_sync(dsn, name)
    store = Store(dsn, name)
    yield store
    store.eyes.execute(f"drop schema {name} cascade")
    store.close()


@pytest.fixture(scope="module")
def full(dsn: str) -> Iterator[Store]:
    """Full tables, analyzed."""
    with _schema(dsn, "hw_full") as store:
        _fill(store)
        yield store


@pytest.fixture(scope="module")
def quiet(dsn: str) -> Iterator[Store]:
    """Tables that were full and are empty, of which the statistics know."""
    with _schema(dsn, "hw_quiet") as store:
        _fill(store)
        store.eyes.execute("delete from job")
        store.eyes.execute("vacuum analyze")
        yield store


def _is_of(node: dict[str, Any], table: str) -> bool:
    """Whether a node reads a table, or a partition of one."""
    name = str(node.get("Relation Name") or node.get("Index Name") or "")
    return name == table if table == "job" else name.startswith(table)


def _read(nodes: list[dict[str, Any]], table: str) -> set[str]:
    """How the plan gets at rows of a table or its partitions: the indexes, or the kind of scan."""
    return {
        node.get("Index Name") or node["Node Type"]
        for node in nodes
        if _is_of(node, table) and node["Node Type"] not in ("ModifyTable", "Bitmap Heap Scan")
    } | {
        node["Index Name"]
        for node in nodes
        if node["Node Type"] == "Bitmap Index Scan" and node["Index Name"].startswith(table)
    }


_HOT = {
    # Of those that count under a limit as many are read as the limit is; where there is none, none.
    "moves/claim": {"job_ready", "job_limited_queue", "job_limited_task", "Tid Scan"},
    "moves/claim_plain": {"job_ready", "Tid Scan"},
    "moves/finish": {"job_pkey"},
    "moves/advance": {"job_pkey", "Tid Scan"},
    "moves/requeue": {"job_pkey", "Tid Scan"},
    # By parts and by place in the table only where something is shut.
    "moves/admit": {"job_line", "job_holding", "Tid Scan", "job_part"},
    "moves/unadmit": {"job_holding", "Tid Scan", "job_part"},
    "moves/promote": {"job_scheduled", "Tid Scan"},
    "moves/rescue": {"job_held", "Tid Scan"},
    "moves/expire": {"job_expiry", "Tid Scan"},
    "moves/cancel": {"job_pkey", "Tid Scan"},
    "moves/purge": {"job_pkey", "Tid Scan"},
    "moves/transfer": {"job_pkey", "Tid Scan"},
    "reads/busy": {"job_held"},
    "reads/counted": {"Tid Range Scan"},
    "reads/held": {"job_pkey"},
    "reads/keys_of": {"job_pkey"},
    "reads/asked": {"job_pkey"},
    "writes/mark_limited": {"job_held", "Tid Scan"},
    "reads/orphans": {"job_held"},
    "reads/lanes": {"job_ready"},
    "reads/all_lanes": {"job_ready"},
    "reads/idle": {"job_ready", "job_scheduled", "job_held", "job_line", "job_holding", "job_pkey"},
    "reads/joined": {"job_blocked"},
    "reads/lines": {"job_line", "job_holding", "Tid Scan", "job_part"},
    "writes/progress": {"job_pkey", "Tid Scan"},
    "writes/await": {"job_pkey"},
}


@pytest.mark.parametrize("name", _HOT)
def test_a_hot_statement_reads_jobs_by_the_index_meant_for_it(full: Store, name: str) -> None:
    ids = [str(row["id"]) for row in full.rows("select id from job limit 100")]
    nodes = plan(full, samples(full.quiet, ids=ids)[name])
    assert _read(nodes, "job") == _HOT[name]


@pytest.mark.parametrize("name", _HOT)
@pytest.mark.parametrize("hour", ["new", "quiet"])
def test_g9_a_plan_made_when_nothing_waits_is_the_one_for_a_million(
    request: pytest.FixtureRequest, hour: str, name: str
) -> None:
    """It is kept for as long as the connection, or until the statistics change."""
    store = request.getfixturevalue("store" if hour == "new" else hour)
    assert _read(plan(store, samples(store.quiet)[name]), "job") == _HOT[name]


# Counts, and searches by a pattern, that people ask for.
_OF_TESTS = ("reads/broken", "reads/enqueued", "reads/next_moment")  # only in users' tests
_WALK = ("reads/count_jobs", "reads/waiting_counts", "reads/matching", *_OF_TESTS)


@pytest.mark.parametrize("name", [name for name in _FILES if name not in _WALK])
def test_no_statement_walks_a_whole_table_of_jobs(full: Store, name: str) -> None:
    nodes = plan(full, samples(full.quiet)[name])
    walked = {
        node["Relation Name"]
        for node in nodes
        if node["Node Type"] == "Seq Scan"
        and any(_is_of(node, table) for table in ("job", "archive", "attempt"))
    }
    assert walked == set()


@pytest.mark.parametrize("name", ["reads/outcome", "reads/job", "moves/revive", "writes/edit"])
def test_the_archive_is_read_by_id(full: Store, name: str) -> None:
    read = _read(plan(full, samples(full.quiet)[name]), "archive")
    assert read
    assert all(re.fullmatch(r"archive_\w*id_idx\d*", index) for index in read), read


def test_a_heartbeat_finds_its_row_by_key(full: Store) -> None:
    nodes = plan(full, samples(full.quiet)["writes/heartbeat"])
    assert _read(nodes, "worker") == {"worker_pkey"}


@pytest.mark.parametrize(
    "name",
    ["moves/finish", "moves/advance", "moves/requeue", "writes/progress", "reads/held"],
)
def test_what_is_fenced_never_walks_the_dead_entries_of_held_jobs(full: Store, name: str) -> None:
    """The statistics know of no running job, so an index of running jobs looks empty to the planner;
    in truth it is full of dead entries."""
    nodes = plan(full, samples(full.quiet)[name])
    assert "job_held" not in _read(nodes, "job")


@pytest.mark.parametrize(
    "name", ["moves/enqueue", "moves/withdraw", "writes/retry", "writes/enqueue_by_name"]
)
def test_a_function_walks_no_table_of_jobs_on_anyones_connection(full: Store, name: str) -> None:
    """Those who make jobs and look after them come on connections without the engine's settings."""
    query = "select id from archive where state = 'f' limit 10"
    failed = [str(row["id"]) for row in full.rows(query)]
    made = [new_job(unique_key=f"u{n}", on_taken="skip") for n in range(10)]
    statement = samples(full.quiet, ids=failed)[name]
    if name == "moves/enqueue":
        statement = jobs.enqueue(full.quiet, made, full.now)
    with psycopg.connect(full.dsn) as conn:
        full.run(statement, conn)
        walked = conn.execute(
            "select relname from pg_stat_xact_user_tables where schemaname = %s and seq_scan > 0 "
            "and relname ~ '^(job|archive|attempt)'",
            [full.schema],
        ).fetchall()
        conn.rollback()
    # A partition without a page costs nothing to look at.
    empty = "select coalesce(sum(pg_relation_size(relid)), 0) as size from pg_stat_user_tables "
    empty += "where schemaname = %s and relname = any (%s)"
    names = [name for (name,) in walked]
    assert full.one(empty, full.schema, names)["size"] == 0, names


def test_the_tables_are_as_full_as_they_are_said_to_be(full: Store) -> None:
    assert full.one("select count(*) as n from job where state = 'r'")["n"] == _MANY
    assert full.count("archive") == _MANY
    assert full.now == NOW
