"""Jobs that a crash failed, and what the archive says of jobs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from headway import Headway
from headway.store.statements import fleet

Db = psycopg.Connection[Any]
Crash = Callable[[UUID], None]


@pytest.fixture
def crash(hw: Headway, db: Db) -> Crash:
    """Has a ready job run by a worker that is lost, for the last time that it may be."""
    dead = fleet.register("gone:1", "0", 1, ["default"], [], 0, None)

    def crash(job_id: UUID) -> None:
        lost = hw._session.client.run_sync(dead)
        changed = db.execute(
            "update job set state = 'x', worker_id = %s, claim = claim + (1::bigint << 32), attempt = 1, "
            "crashes = 2, claimed_at = now() where id = %s and state = 'r'",
            (lost, job_id),
        )
        assert changed.rowcount == 1

    return crash


def kept_for(db: Db, job_id: UUID) -> timedelta | None:
    """How long the archive keeps a job; none if it is not there."""
    row = db.execute(
        "select kept_until - finished_at from archive where id = %s", (job_id,)
    ).fetchone()
    return row[0] if row else None
