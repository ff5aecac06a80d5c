"""G4 and G2: a worker under SIGSTOP past its lease with a transaction open, and how it wakes up.

Its locks must not outlive its lease: another worker needs them.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.crash.boundary import COMMIT
from tests.crash.count import assert_each_finished_once, unfinished, worker_ids
from tests.crash.ledger import register
from tests.crash.proxy import Proxy
from tests.fixtures.processes import WorkerProcess
from tests.support import eventually

LEASE = "2s"


@pytest.fixture
def ledger(db: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    db.execute("create table account (balance integer, payer integer)")
    db.execute("insert into account values (0, null)")
    db.execute("create table effect (job_id uuid, run integer)")
    return db


@pytest.fixture
def payer(
    spawn_worker: Callable[..., WorkerProcess], dsn: str, gates: Path
) -> Callable[..., WorkerProcess]:
    def start(dsn: str = dsn) -> WorkerProcess:
        return spawn_worker("tests.crash.ledger:hw", "--lease", LEASE, dsn=dsn, GATES=str(gates))

    return start


@pytest.fixture
def app(hw: Headway, schema: str) -> Headway:
    return register(hw, schema)


def _paying(db: psycopg.Connection[Any], schema: str) -> int:
    """How many handlers have a transaction open in which they have written."""
    row = db.execute(
        """select count(*) from pg_stat_activity
           where datname = current_database() and application_name like %s
             and state = 'idle in transaction' and backend_xid is not null""",
        (f"headway handlers of worker % in {schema}",),
    ).fetchone()
    assert row is not None
    return int(row[0])


def _written(db: psycopg.Connection[Any]) -> list[Any]:
    """Everything that is durable about jobs and what they did."""
    return [
        db.execute(f"select t::text from {table} t order by 1").fetchall()
        for table in ("job", "archive", "attempt", "account", "effect")
    ]


async def _wakes_to_nothing(
    app: Headway, db: psycopg.Connection[Any], stopped: WorkerProcess, other: WorkerProcess
) -> None:
    """The stopped worker goes on under a new id, does other work, and has written nothing else."""
    written = _written(db)
    stopped.send(signal.SIGCONT)
    await eventually(lambda: len(worker_ids(db, stopped.pid)) > 1)
    other.send(signal.SIGTERM)
    assert other.wait(60) == 0
    last = await app.tasks["witness"].enqueue()
    assert await last.result(timeout="60s") == stopped.pid
    stopped.send(signal.SIGTERM)
    assert stopped.wait(60) == 0
    db.execute("delete from archive where id = %s", (last.id,))
    assert _written(db) == written


@pytest.mark.slow
@pytest.mark.parametrize("task", ["pay", "pay_in_thread"])
async def test_g4_the_locks_of_a_stopped_worker_end_with_its_lease(
    app: Headway, ledger: psycopg.Connection[Any], payer, gates: Path, schema: str, task: str
) -> None:
    stopped = payer()
    job = await app.tasks[task].enqueue()
    await eventually(lambda: _paying(ledger, schema) == 1)
    stopped.send(signal.SIGSTOP)

    other = payer()
    (gates / "2").touch()
    assert await job.result(timeout="60s") == other.pid
    (gates / "1").touch()
    assert ledger.execute("select balance, payer from account").fetchall() == [(1, 2)]
    assert ledger.execute("select run from effect").fetchall() == [(2,)]
    await _wakes_to_nothing(app, ledger, stopped, other)
    assert_each_finished_once(ledger, [job])


@pytest.mark.slow
async def test_g4_a_worker_that_is_stopped_before_its_commit_does_not_commit(
    app: Headway, ledger: psycopg.Connection[Any], payer, gates: Path, schema: str, proxy: Proxy
) -> None:
    """The verdict is written and not committed: the job itself is locked, so nobody can take it."""
    stopped = payer(proxy.dsn)
    job = await app.tasks["pay"].enqueue()
    await eventually(lambda: _paying(ledger, schema) == 1)
    commit = proxy.hold_request(COMMIT)
    (gates / "1").touch()
    await eventually(commit.sprung.is_set)
    stopped.send(signal.SIGSTOP)
    assert unfinished(ledger) == 1

    other = payer()
    (gates / "2").touch()
    assert await job.result(timeout="60s") == other.pid
    proxy.release(commit)
    assert ledger.execute("select balance, payer from account").fetchall() == [(1, 2)]
    await _wakes_to_nothing(app, ledger, stopped, other)
    assert_each_finished_once(ledger, [job])
