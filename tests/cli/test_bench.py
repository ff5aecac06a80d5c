"""`headway bench`: its figures, its bounds, and the schema that it leaves in no case."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import click.testing
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from headway.cli.bench import measure
from headway.cli.bench.figures import CLIENT, COMMITS, CORES, NETWORK, SERVER, WAITS, Figure
from headway.cli.exits import DEFECT, FAILED, OK, UNREACHABLE
from headway.cli.root import root
from headway.store.activity import Activity
from tests.support import DEADLINE, eventually_sync

_SMALL = ("bench", "--jobs", "200", "--seconds", "0.3", "--chunk", "100", "-c", "50")


def _bench(dsn: str, *words: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(root, [*_SMALL, "--dsn", dsn, *words])


def _schemas(dsn: str) -> list[str]:
    """The schemas of benchmarks in the database. Tests of one process have it for themselves."""
    with psycopg.connect(dsn) as conn:
        found = conn.execute(
            "select nspname from pg_namespace where nspname like 'headway_bench_%'"
        )
        return [name for (name,) in found.fetchall()]


def test_bench_measures_within_its_bounds_and_removes_its_schema(dsn: str) -> None:
    result = _bench(dsn, "--json")
    assert result.exit_code == OK, result.output
    answer = json.loads(result.stdout)
    figures = answer["figures"]
    assert list(figures) == [
        *("round_trip", "insert", "quick_insert", "enqueue", "bulk", "drain", "pick_up")
    ]
    for name, figure in figures.items():
        # The drain takes what the others enqueued, and those that warmed up.
        assert 0 < figure["jobs"] <= (420 if name == "drain" else 200), name
        assert figure["limit"] in (None, CLIENT, SERVER, COMMITS, WAITS, CORES, NETWORK), name
    for name in ("round_trip", "insert", "enqueue", "pick_up"):
        assert 0 < figures[name]["p50_ms"] <= figures[name]["p99_ms"]
    assert answer["enqueue_of_bare"] > 0
    assert answer["server"]["version"]
    assert "which is removed at the end" in result.stderr
    assert _schemas(dsn) == []


def test_s27_settings_of_the_database_do_not_keep_the_schema(dsn: str) -> None:
    options = "-c default_transaction_read_only=on -c search_path=public,pg_catalog"
    result = _bench(make_conninfo(dsn, options=options))
    assert result.exit_code == OK, result.output
    assert "is left" not in result.stderr
    assert _schemas(dsn) == []


def test_bench_shows_people_a_table_and_what_limits_it(dsn: str) -> None:
    shown = _bench(dsn).stdout
    for words in ("bare INSERT", "enqueue_many", "drain, one worker", "limited by", "p99 ms"):
        assert words in shown


@pytest.fixture
def login(dsn: str) -> Iterator[str]:
    """A login that may connect and no more."""
    name = f"bench_login_{os.getpid()}"
    role = sql.Identifier(name)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("create role {} login password 'x'").format(role))
        yield make_conninfo(dsn, user=name, password="x")
        conn.execute(sql.SQL("drop role {}").format(role))


def test_a_role_that_may_not_create_a_schema_is_refused(login: str, dsn: str) -> None:
    result = _bench(login)
    assert result.exit_code == UNREACHABLE, result.output
    assert "may not create a schema in database" in " ".join(result.stderr.split())
    assert "is left" not in result.stderr
    assert _schemas(dsn) == []


def test_an_unreachable_database_is_one_error(dsn: str) -> None:
    result = _bench("postgresql://localhost:1/nowhere")
    assert result.exit_code == UNREACHABLE
    assert result.stderr.count("error:") == 1


def test_a_failure_leaves_no_schema(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        assert _schemas(dsn)
        raise RuntimeError("oops")

    monkeypatch.setattr(measure.Measurement, "_bulk", fail)
    assert _bench(dsn).exit_code == DEFECT
    assert _schemas(dsn) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_schema(dsn: str, number: signal.Signals) -> None:
    words = ("bench", "--jobs", "1000000", "--seconds", "300", "--dsn", dsn)
    process = subprocess.Popen(
        [sys.executable, "-m", "headway", *words], stderr=subprocess.PIPE, text=True
    )
    try:
        eventually_sync(lambda: _has_jobs(dsn))
        process.send_signal(number)
        _, said = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
    assert process.returncode == FAILED, said
    assert "Traceback" not in said
    assert _schemas(dsn) == []


def _has_jobs(dsn: str) -> bool:
    """Whether the benchmark's worker has run a job."""
    with psycopg.connect(dsn) as conn:
        for name in _schemas(dsn):
            found = sql.SQL("select exists (select from {}.worker)").format(sql.Identifier(name))
            try:
                return conn.execute(found).fetchone() == (True,)
            except psycopg.errors.UndefinedTable:
                return False
    return False


# -- the limit: pure decisions --------------------------------------------------------------------


def _figure(**spent: float) -> Figure:
    activity = Activity(seconds=1.0, samples=100)
    for name, value in spent.items():
        setattr(activity, name, value)
    return Figure("x", jobs=10, activity=activity)


@pytest.mark.parametrize(
    ("figure", "limit"),
    [
        (_figure(client_cpu=0.9, working=30), CLIENT),
        (_figure(client_cpu=0.3, working=80), SERVER),
        (_figure(client_cpu=0.3, working=10, server_cpu=0.8), SERVER),
        (_figure(client_cpu=0.2, working=20, committing=60), COMMITS),
        (_figure(client_cpu=0.2, waiting=70), WAITS),
        (_figure(client_cpu=0.2, core_wait=0.7), CORES),
        (_figure(client_cpu=0.1, working=5), NETWORK),
        (Figure("nothing was measured"), None),
    ],
)
def test_the_limit_is_the_cause_that_took_most_of_the_time(
    figure: Figure, limit: str | None
) -> None:
    assert figure.limit == limit


def test_waits_are_told_apart_by_their_events() -> None:
    activity = Activity()
    activity.add([(1, "IO", "WALSync"), (2, "Client", "ClientRead")])
    activity.add([(1, "IO", "WalSync"), (2, None, None)])
    activity.add([(1, "Lock", "transactionid"), (2, "IPC", "SyncRep")])
    activity.add([(1, "Client", "ClientRead")])
    counted = (activity.samples, activity.working, activity.committing, activity.waiting)
    assert counted == (4, 1, 3, 1)
    assert dict(activity.waits) == {"Lock: transactionid": 1}
