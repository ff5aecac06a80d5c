"""The SQL of the guide, as psql runs it: the consumer in it is complete."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from headway.embedded.binaries import find_binaries
from headway.store import migrate

GUIDE = Path(__file__).parents[2] / "docs" / "sql.md"
Psql = Callable[[str], str]


@pytest.fixture
def own_database(server_dsn: str) -> Iterator[str]:
    """A database with the schema of the guide."""
    name = sql.Identifier(f"headway_guide_{os.getpid()}")
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("drop database if exists {} with (force)").format(name))
        conn.execute(sql.SQL("create database {}").format(name))
        own = make_conninfo(server_dsn, dbname=name.as_string().strip('"'))
        migrate.run_sync(own, "headway")
        yield own
        conn.execute(sql.SQL("drop database {} with (force)").format(name))


@pytest.fixture
def psql(own_database: str) -> Psql:
    """Runs a script; what it printed."""
    program = find_binaries().bin / "psql"
    assert program.exists(), f"no psql among the server's programs: {program}"

    def run(script: str) -> str:
        done = subprocess.run(
            [program, own_database, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"],
            input=script,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def _blocks() -> list[str]:
    return re.findall(r"^```sql\n(.*?)^```", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def test_every_block_of_the_guide_runs(psql: Psql) -> None:
    assert len(_blocks()) > 7
    psql("\n".join(_blocks()))


def test_the_consumer_of_the_guide_takes_one_job_and_settles_it(
    psql: Psql, own_database: str
) -> None:
    (consumer,) = (block for block in _blocks() if r"\gset" in block)
    psql("select headway.enqueue('welcome', '{\"user_id\": 7}', queue => 'mail');")
    assert psql(consumer).split("\n")[:2] == ["greeting user 7", "t"]
    assert psql(consumer) == "nothing to do\n"
    with psycopg.connect(own_database) as conn:
        job = conn.execute("select state, result from headway.jobs").fetchall()
    assert job == [("succeeded", {"greeted": "7"})]
