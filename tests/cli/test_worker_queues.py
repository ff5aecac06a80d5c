"""`headway worker -q`: weights, slots of their own and `*`, as a real process."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import psycopg

from headway import Headway
from tests.cli.conftest import APP, Spawn
from tests.support import DEADLINE, eventually_sync


def _served(db: psycopg.Connection[Any]) -> tuple[list[str], int]:
    def registered() -> Any:
        return db.execute("select queues, slots from worker where expires_at > now()").fetchone()

    return eventually_sync(registered)


def test_every_kind_of_queue_is_served_and_reports_has_its_own_slots(
    spawn_worker: Spawn, tasks: Headway, db: psycopg.Connection[Any], tmp_path: Path
) -> None:
    worker = spawn_worker(
        APP, "-q", "mail:3", "-q", "default:1", "-q", "reports=2", "-q", "*", "-c", "3"
    )
    assert _served(db) == (["mail", "default", "*", "reports"], 5)
    hold, mail = tasks.tasks["hold"], tasks.tasks["mail"]
    for queue in ("reports", "default"):
        hold.using(queue=queue).enqueue_many_sync([{"place": str(tmp_path)}] * 6)

    def running() -> dict[str, int]:
        query = "select queue, count(*) from job where state = 'x' group by queue"
        return dict(db.execute(query).fetchall())

    eventually_sync(lambda: running() == {"reports": 2, "default": 3})
    (tmp_path / "let-go").touch()
    # A queue that nobody named, and that came into being later.
    job = mail.using(queue="brand new").enqueue_sync("ada")
    assert job.result_sync(timeout=DEADLINE) == "sent to ada"
    assert mail.enqueue_sync("bob").result_sync(timeout=DEADLINE) == "sent to bob"
    eventually_sync(lambda: db.execute("select count(*) from job").fetchone() == (0,))
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert "serving mail, default, *, reports with 5 slots" in worker.output()
