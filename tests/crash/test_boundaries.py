"""G4 and G5 at every boundary: a worker's life is cut short before and after each of its statements.

Each statement that every worker sends has two boundaries. At each of them a worker of its own is killed,
or loses the connection; what it leaves behind is for the next. A clean run tells by name which statements
there are, so that a new one cannot be forgotten here. In the end every flow must have left each of its
traces once.
"""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from headway import Headway
from tests.crash.boundary import Boundary, BoundaryProxy
from tests.crash.flows import assert_each_trace_is_there_once, register
from tests.crash.nursery import Nursery
from tests.support import eventually_sync

FLOWS_PER_BOUNDARY = 7
AT_THE_END = "retire_worker"

# Every worker with these flows needs these: the clean run must have met all of them.
VITAL = {
    "declare", "register_worker", "heartbeat", "lanes", "claim_plain", "advance", "finish", "requeue",
    "lock_keys", "admit", "joined", "promote", "rescue", "begin isolation level", "insert into effect",
    "enqueue_one_in", "commit", AT_THE_END,
}  # fmt: skip

# Every worker also does these, sooner or later.
USUAL = {
    "asked", "clean_schedules", "clean_up", "controls", "counted", "declare_limits", "due_schedules",
    "expire", "gatherable", "held", "job_counts", "lines", "listen", "mark_limited", "partitions",
    "place", "select max version", "select pg_is_in_recovery pg_backend_pid",
    "select pg_is_in_recovery pid",
    "select pg_catalog pg_notify", "select set_config default_transaction_isolation",
    "select set_config lock_timeout", "set client_connection_check_interval 2s",
    "set idle_in_transaction_session_timeout 5min", "tally", "unadmit",
}  # fmt: skip

# A worker does these only after a fault, or if there is a limit: nothing waits for them.
UNUSUAL = {"claim", "orphans", "note_trouble", "blockers", "waits", "rollback"}

# Of these a later one is tried too, in the midst of things.
RECURRING = {
    "claim_plain",
    "advance",
    "finish",
    "admit",
    "begin isolation level",
    "commit",
    "heartbeat",
}


class Life:
    """Workers, one after the other, and the flows that are given to them."""

    def __init__(
        self, app: Headway, db: psycopg.Connection[Any], proxy: BoundaryProxy, nursery: Nursery
    ):
        self._flow = register(app)
        self._db = db
        self._proxy = proxy
        self._nursery = nursery
        self._numbers = itertools.count()
        self.made: list[UUID] = []

    def more(self) -> None:
        """Flows of two shops of their own, so that no dead worker's room is in their way."""
        some = [next(self._numbers) for _ in range(FLOWS_PER_BOUNDARY)]
        calls = [{"n": n, "shop": f"{some[0]}-{n % 2}"} for n in some]
        self.made += [job.id for job in self._flow.enqueue_many_sync(calls)]

    def clean(self) -> set[str]:
        """A worker from its start to its stop; the statements of its life."""
        self._proxy.arm(None)
        self._nursery.start(slots=20)
        self.more()
        eventually_sync(self.idle, within=120)
        eventually_sync(lambda: VITAL - {AT_THE_END} <= self._proxy.seen.keys(), within=120)
        self._nursery.send(signal.SIGTERM)
        eventually_sync(lambda: not self._nursery.alive(), within=120)
        return set(self._proxy.seen)

    def end_at(self, boundary: Boundary, *, kill: bool) -> None:
        """A worker that gets to the boundary; killed there, or it goes on without that connection."""
        self._proxy.arm(boundary, lambda: self._nursery.send(signal.SIGKILL) if kill else None)
        self.more()
        self._nursery.start()
        if boundary.statement == AT_THE_END:
            eventually_sync(lambda: self._proxy.seen["claim_plain"], within=120)
            self._nursery.send(signal.SIGTERM)
        self._with_work_until(self._proxy.reached.is_set, str(boundary))
        if not kill:
            # Ended if it was starting or stopping; else it must be able to go on.
            seen = self._proxy.seen["finish"]
            self._with_work_until(
                lambda: self._proxy.seen["finish"] > seen + 1 or not self._nursery.alive(),
                f"work after {boundary}",
            )

    def idle(self) -> bool:
        return self._db.execute("select exists (select 1 from job)").fetchone() == (False,)

    def _with_work_until(self, fact: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 120
        while not fact():
            assert time.monotonic() < deadline, f"{what} did not come; seen {self._proxy.seen}"
            if self.idle():
                self.more()
            time.sleep(0.01)


@pytest.fixture
def life(dsn: str, schema: str, db: psycopg.Connection[Any], tmp_path: Path) -> Iterator[Life]:
    db.execute("create table effect (job_id uuid, step text)")
    with BoundaryProxy(dsn) as proxy, Headway(dsn, schema=schema) as app:
        nursery = Nursery(proxy.dsn, schema, tmp_path / "nursery.log")
        yield Life(app, db, proxy, nursery)
        nursery.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "cut off"])
def test_g5_a_worker_that_ends_at_any_boundary_leaves_every_trace_once(
    life: Life, db: psycopg.Connection[Any], kill: bool
) -> None:
    met = life.clean()
    assert met >= VITAL
    assert met <= VITAL | USUAL | UNUSUAL
    boundaries = [
        Boundary(statement, occurrence, stage)
        for statement in sorted(VITAL | USUAL)
        for occurrence in ((1, 3) if statement in RECURRING else (1,))
        for stage in ("before", "after")
    ]
    for boundary in boundaries:
        life.end_at(boundary, kill=kill)
    life.clean()
    assert len(life.made) >= 500
    assert_each_trace_is_there_once(db, life.made)
