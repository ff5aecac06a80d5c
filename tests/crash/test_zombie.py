"""SIGSTOP past the lease, then SIGCONT: a worker that was given up while it could not know."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.crash.count import assert_each_finished_once, told, unfinished, worker_ids
from tests.crash.proxy import Proxy, opening
from tests.support import eventually


def _written(db: psycopg.Connection[Any]) -> list[Any]:
    """Everything that is durable about jobs."""
    return [
        db.execute(f"select t::text from {table} t order by 1").fetchall()
        for table in ("job", "archive", "attempt")
    ]


@pytest.mark.slow
async def test_g2_a_zombie_writes_nothing_and_works_on_under_a_new_id(
    app: Headway, seen: psycopg.Connection[Any], worker, gates: Path
) -> None:
    zombie = worker(concurrency=6)
    # When it comes back half of them may end by themselves; the others can only be stopped.
    jobs = [await app.tasks["hold"].enqueue("ends" if n % 2 else "runs") for n in range(6)]
    await eventually(lambda: told(seen, "began", zombie.pid) == 6)
    zombie.send(signal.SIGSTOP)

    other = worker(concurrency=6)
    await eventually(lambda: told(seen, "began", other.pid) == 6)
    for gate in ("runs-2", "ends-2", "ends-1"):
        (gates / gate).touch()
    await eventually(lambda: unfinished(seen) == 0)
    rows = seen.execute(
        "select claim >> 32, attempt, worker_id, result::int from archive"
    ).fetchall()
    assert rows == [(2, 1, *worker_ids(seen, other.pid), other.pid)] * 6
    written = _written(seen)

    zombie.send(signal.SIGCONT)
    await eventually(lambda: len(worker_ids(seen, zombie.pid)) > 1)
    await eventually(
        lambda: told(seen, "stopped", zombie.pid) + told(seen, "ended", zombie.pid) == 6
    )
    assert told(seen, "stopped", zombie.pid) >= 3
    other.send(signal.SIGTERM)
    assert other.wait() == 0
    last = await app.tasks["witness"].enqueue()
    assert await last.result(timeout="60s") == zombie.pid
    newest = worker_ids(seen, zombie.pid)[-1]
    assert (await last.status()).worker == newest

    seen.execute("delete from archive where id = %s", (last.id,))
    assert _written(seen) == written
    assert_each_finished_once(seen, jobs)


@pytest.mark.slow
async def test_g2_a_verdict_that_arrives_late_writes_nothing(
    app: Headway,
    seen: psycopg.Connection[Any],
    worker,
    gates: Path,
    proxy: Proxy,
    dsn: str,
    schema: str,
) -> None:
    """Its job ran to the end and was settled, but the settling was held up on its way."""
    late = worker(dsn=proxy.dsn, SIDE_DSN=dsn)
    job = await app.tasks["hold"].enqueue("g")
    await eventually(lambda: told(seen, "began", late.pid) == 1)
    verdict = proxy.hold_request(opening("moves/finish", schema))
    (gates / "g-1").touch()
    await eventually(verdict.sprung.is_set)
    late.send(signal.SIGSTOP)

    other = worker()
    await eventually(lambda: told(seen, "began", other.pid) == 1)
    proxy.release(verdict)
    await eventually(verdict.answered.is_set)
    assert (await job.status()).worker == worker_ids(seen, other.pid)[0], "it is the other's"
    (gates / "g-2").touch()
    assert await job.result(timeout="60s") == other.pid
    written = _written(seen)

    late.send(signal.SIGCONT)
    await eventually(lambda: len(worker_ids(seen, late.pid)) > 1)
    assert _written(seen) == written
    assert_each_finished_once(seen, [job])


@pytest.mark.slow
async def test_g2_a_claim_answered_while_the_worker_was_stopped_starts_nothing(
    app: Headway,
    seen: psycopg.Connection[Any],
    worker,
    gates: Path,
    proxy: Proxy,
    dsn: str,
    schema: str,
) -> None:
    """The answer lies in its socket when it wakes up, and the job is another's."""
    job = await app.tasks["hold"].enqueue("g")
    claim = proxy.hold_reply(opening("moves/claim_plain", schema))
    late = worker(dsn=proxy.dsn, SIDE_DSN=dsn)
    await eventually(claim.answered.is_set)
    late.send(signal.SIGSTOP)
    proxy.release(claim)
    other = worker()
    await eventually(lambda: told(seen, "began", other.pid) == 1)

    late.send(signal.SIGCONT)
    await eventually(lambda: len(worker_ids(seen, late.pid)) > 1)
    (gates / "g-1").touch()
    assert await job.result(timeout="60s") == other.pid
    other.send(signal.SIGTERM)
    assert other.wait() == 0
    last = await app.tasks["witness"].enqueue()
    assert await last.result(timeout="60s") == late.pid
    assert told(seen, "began", late.pid) == 1, "the witness alone"
    assert_each_finished_once(seen, [job, last])


@pytest.mark.slow
async def test_g2_a_job_claimed_again_while_its_old_handler_winds_down_finishes_once(
    app: Headway, seen: psycopg.Connection[Any], worker, gates: Path
) -> None:
    """The same process, under a new id, gets the job back that its old id had lost."""
    only = worker(concurrency=2)
    job = await app.tasks["linger"].enqueue("g")
    await eventually(lambda: told(seen, "began") == 1)
    only.send(signal.SIGSTOP)
    await eventually(
        lambda: seen.execute("select 1 from worker where expires_at < now()").fetchone()
    )
    only.send(signal.SIGCONT)
    await eventually(lambda: told(seen, "stopping") == 1)
    await eventually(lambda: seen.execute("select 1 from attempt").fetchone())
    # Behind it in its lane: when this has run, the other was claimed too, or passed over.
    behind = await app.tasks["witness"].enqueue()
    assert await behind.result(timeout="60s") == only.pid

    (gates / "stop").touch()
    await eventually(lambda: told(seen, "stopped") == 1)
    (gates / "g-2").touch()
    assert await job.result(timeout="60s") == only.pid
    assert_each_finished_once(seen, [job, behind])

    # Both slots are free again.
    two = [await app.tasks["hold"].enqueue("two") for _ in range(2)]
    (gates / "two-1").touch()
    for each in two:
        assert await each.result(timeout="60s") == only.pid
