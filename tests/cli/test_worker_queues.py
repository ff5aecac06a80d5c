"""`headway worker -q`: weights, slots of their own, `*` and strict order, as a real process."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest

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


def test_weights_are_those_of_the_command_line(
    spawn_worker: Spawn, tasks: Headway, db: psycopg.Connection[Any]
) -> None:
    add = tasks.tasks["add"]
    for queue in ("mail", "default"):
        add.using(queue=queue).enqueue_many_sync([{"a": 1, "b": 2}] * 120)
    spawn_worker(APP, "-q", "mail:3", "-q", "default", "-c", "4")
    assert _started(db, 120)["mail"] == pytest.approx(90, abs=8)


def _started(db: psycopg.Connection[Any], number: int) -> Counter[str]:
    """The queues of those that were started first, once all are done."""
    eventually_sync(lambda: db.execute("select count(*) from job").fetchone() == (0,))
    query = "select queue from jobs order by started_at, id limit %s"
    return Counter(queue for (queue,) in db.execute(query, [number]).fetchall())


def test_strict_order_is_that_of_the_command_line(
    spawn_worker: Spawn, tasks: Headway, db: psycopg.Connection[Any]
) -> None:
    add = tasks.tasks["add"]
    for queue in ("low", "urgent", "other"):
        add.using(queue=queue).enqueue_many_sync([{"a": 1, "b": 2}] * 20)
    spawn_worker(APP, "-q", "urgent", "-q", "*", "-q", "low", "--order", "strict", "-c", "2")
    eventually_sync(lambda: db.execute("select count(*) from job").fetchone() == (0,))
    query = "select queue from jobs order by started_at, id"
    order = [queue for (queue,) in db.execute(query).fetchall()]
    assert order == ["urgent"] * 20 + ["other"] * 20 + ["low"] * 20


def test_a_dedicated_queue_alone_is_all_that_is_served(
    spawn_worker: Spawn, tasks: Headway, db: psycopg.Connection[Any]
) -> None:
    spawn_worker(APP, "-q", "reports=2")
    assert _served(db) == (["reports"], 2)
    other = tasks.tasks["add"].enqueue_sync(1, 2)
    job = tasks.tasks["add"].using(queue="reports").enqueue_sync(3, 4)
    assert job.result_sync(timeout=DEADLINE) == 7
    assert other.status_sync().state == "ready"


def test_a_file_says_it_where_the_command_line_does_not(
    spawn_worker: Spawn, tasks: Headway, db: psycopg.Connection[Any]
) -> None:
    spawn_worker(
        APP, HEADWAY_WORKER__QUEUES="mail:3, reports=2, *", HEADWAY_WORKER__CONCURRENCY="7"
    )
    assert _served(db) == (["mail", "*", "reports"], 9)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["-q", "reports=many"], "number of slots is a whole number, 1 or more"),
        (["-q", "mail", "-q", "mail=2"], "queue 'mail' is named twice; name it once"),
        (["-q", "*=3"], "slots of its own are for a queue with a name, not for '*'"),
        (["--order", "random"], "'random' is not one of 'fair', 'strict'"),
    ],
)
def test_queues_that_cannot_be_read_are_complained_of_and_nothing_is_served(
    spawn_worker: Spawn, words: list[str], complaint: str
) -> None:
    worker = spawn_worker(APP, *words)
    assert worker.wait() == 2
    assert complaint in " ".join(worker.output().split())
    assert "Traceback" not in worker.output()
