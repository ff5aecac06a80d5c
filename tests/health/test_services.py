"""A service that keeps failing shows up: in /readyz, in the log, in the worker's row (G7)."""

from __future__ import annotations

from tests.health.ask import Reply, get
from tests.support import DEADLINE, eventually


async def _readyz(port: int, about: str, status: str) -> Reply:
    async def asked() -> Reply | None:
        reply = await get(port, "/readyz")
        return reply if (about, status) in reply.statuses() else None

    return await eventually(asked)


async def test_g7_a_service_that_fails_for_a_lease_is_seen_everywhere(
    hw, observed, db, caplog
) -> None:
    @hw.task
    async def add(a: int, b: int) -> int:
        return a + b

    running, where = observed(lease="1s", concurrency=3)
    port = await eventually(where)
    await _readyz(port, "services", "ok")
    db.execute("alter table archive rename to hidden")  # nothing can be settled
    job = await add.enqueue(1, 2)
    await _readyz(port, "service job_loop", "note")
    reply = await _readyz(port, "service job_loop", "wrong")
    assert reply.status == 503
    assert "SchemaMismatch 42P01" in reply.finding("service job_loop")[1]
    assert (await get(port, "/livez")).status == 200, "a restart would not help"
    said = "select trouble from worker where id = %s"
    await eventually(
        lambda: (
            "job_loop has failed for "
            in (db.execute(said, [running.worker.id]).fetchone()[0] or "")
        )
    )
    figures = (await get(port, "/metrics")).figures()
    assert figures['headway_service_failures_total{service="job_loop"}'] >= 2
    assert figures['headway_service_failing_seconds{service="job_loop"}'] >= 1
    assert figures['headway_service_failing_seconds{service="heartbeat"}'] == 0
    errors = [r for r in caplog.records if getattr(r, "failing_for", 0) >= 1]
    assert ("ERROR", "job_loop") in {(r.levelname, r.service) for r in errors}

    db.execute("alter table hidden rename to archive")
    assert await job.result(timeout=DEADLINE) == 3
    assert (await _readyz(port, "services", "ok")).status == 200
    await eventually(lambda: db.execute(said, [running.worker.id]).fetchone() == (None,))
    again = [r for r in caplog.records if "works again" in r.getMessage()]
    assert ("INFO", "job_loop") in {(r.levelname, r.service) for r in again}


async def test_g7_a_round_trip_that_gets_no_answer_for_a_lease_is_wrong(hw, observed, db) -> None:
    @hw.task
    async def add(a: int, b: int) -> int:
        return a + b

    _, where = observed(lease="1s", concurrency=3)
    port = await eventually(where)
    await _readyz(port, "services", "ok")
    with db.transaction():
        db.execute("lock table archive in access exclusive mode")  # its answer waits for this
        job = await add.enqueue(1, 2)
        reply = await _readyz(port, "service job_loop", "wrong")
        assert reply.status == 503
        assert "job_loop has " in reply.finding("service job_loop")[1]
    assert await job.result(timeout=DEADLINE) == 3
    await _readyz(port, "services", "ok")
