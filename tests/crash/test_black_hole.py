"""A network that takes everything and answers nothing, or answers too late."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.store.connections.connect import connect
from tests.crash.count import (
    assert_each_finished_once,
    assert_no_overlap,
    held_by,
    told,
    unfinished,
    worker_ids,
)
from tests.crash.proxy import Proxy, opening
from tests.support import eventually

FEW = 60
"""More connection attempts than any outage here may cost; a loop without pauses makes thousands."""


@pytest.mark.slow
async def test_g2_a_worker_cut_off_stops_its_handlers_before_another_starts_them(
    app: Headway, seen: psycopg.Connection[Any], worker, gates: Path, proxy: Proxy, dsn: str
) -> None:
    far = worker(dsn=proxy.dsn, SIDE_DSN=dsn, lease="6s")
    jobs = [await app.tasks["hold"].enqueue("g") for _ in range(5)]
    await eventually(lambda: told(seen, "began", far.pid) == 5)
    before = proxy.accepted
    proxy.black_hole()
    near = worker()
    await eventually(lambda: told(seen, "began", near.pid) == 5)
    assert told(seen, "stopped", far.pid) == 5
    assert_no_overlap(seen)
    (first,) = worker_ids(seen, far.pid)
    late = seen.execute(
        "select count(*) from seen join worker on id = %s where what = 'stopped' and at > expires_at",
        (first,),
    ).fetchone()
    assert late == (0,), "the lease was to outlast the handlers"

    # It claims nothing more, and works again when it is back.
    more = [await app.tasks["hold"].enqueue("g") for _ in range(5)]
    await eventually(lambda: told(seen, "began", near.pid) == 10)
    assert held_by(seen, far.pid) == 0
    assert proxy.accepted - before < FEW
    for gate in ("g-1", "g-2"):
        (gates / gate).touch()
    await eventually(lambda: unfinished(seen) == 0)
    proxy.thaw()
    await eventually(lambda: worker_ids(seen, far.pid)[-1] != first)
    near.send(signal.SIGTERM)
    assert near.wait() == 0
    last = await app.tasks["witness"].enqueue()
    assert await last.result(timeout="60s") == far.pid
    assert_each_finished_once(seen, [*jobs, *more, last])
    results = seen.execute("select distinct result::int from archive where id <> %s", (last.id,))
    assert results.fetchall() == [(near.pid,)]


@pytest.mark.slow
async def test_g2_a_worker_cut_off_kills_the_process_of_a_job_before_another_starts_it(
    app: Headway, seen: psycopg.Connection[Any], worker, gates: Path, proxy: Proxy, dsn: str
) -> None:
    worker(dsn=proxy.dsn, SIDE_DSN=dsn)
    job = await app.tasks["alone"].enqueue("g")
    await eventually(lambda: told(seen, "began") == 1)
    proxy.black_hole()
    worker()
    await eventually(lambda: told(seen, "began") == 2)
    (gates / "g-2").touch()
    assert await job.result(timeout="60s") > 0
    assert_each_finished_once(seen, [job])


@pytest.mark.slow
async def test_g2_a_claim_that_is_answered_too_late_starts_nothing(
    app: Headway,
    seen: psycopg.Connection[Any],
    worker,
    gates: Path,
    proxy: Proxy,
    dsn: str,
    schema: str,
) -> None:
    """The server gave it the job; when the answer arrives the job is another's."""
    job = await app.tasks["hold"].enqueue("g")
    claim = proxy.hold_reply(opening("moves/claim_plain", schema))
    far = worker(dsn=proxy.dsn, SIDE_DSN=dsn)
    await eventually(claim.answered.is_set)
    assert held_by(seen, far.pid) == 1
    proxy.black_hole()
    near = worker()
    await eventually(lambda: told(seen, "began", near.pid) == 1)
    proxy.release(claim)
    proxy.thaw()

    await eventually(lambda: len(worker_ids(seen, far.pid)) > 1)
    near.send(signal.SIGSTOP)
    last = await app.tasks["witness"].enqueue()
    assert await last.result(timeout="60s") == far.pid
    assert seen.execute("select count(*) from seen where pid = %s", (far.pid,)).fetchone() == (1,)
    near.send(signal.SIGCONT)
    for gate in ("g-1", "g-2", "g-3"):
        (gates / gate).touch()
    await job.result(timeout="60s")
    assert_each_finished_once(seen, [job, last])


@pytest.mark.slow
async def test_connections_that_never_answer_again_are_given_up(
    app: Headway, seen: psycopg.Connection[Any], worker, gates: Path, proxy: Proxy, dsn: str
) -> None:
    """They stay open and the kernel at their other end takes what is sent: no keepalive notices."""
    only = worker(dsn=proxy.dsn, SIDE_DSN=dsn)
    job = await app.tasks["hold"].enqueue("g")
    await eventually(lambda: told(seen, "began") == 1)
    proxy.strand()
    moment = seen.execute("select clock_timestamp()").fetchone()
    await eventually(
        lambda: seen.execute("select 1 from worker where seen_at > %s", moment).fetchone(),
    )
    for attempt in (1, 2, 3):
        (gates / f"g-{attempt}").touch()
    assert await job.result(timeout="60s") == only.pid
    assert_no_overlap(seen)
    assert_each_finished_once(seen, [job])


@pytest.mark.slow
async def test_g3_an_outage_costs_few_connections_and_no_job(
    app: Headway, db: psycopg.Connection[Any], worker, proxy: Proxy
) -> None:
    """Every connection is closed as soon as it is made: nothing slows a loop down but its own pauses."""
    jobs = await app.tasks["pause"].enqueue_many({"n": n, "seconds": 0.05} for n in range(500))
    only = worker(dsn=proxy.dsn, concurrency=10)
    await eventually(lambda: db.execute("select 1 from archive limit 1").fetchone())
    before = proxy.accepted
    proxy.refuse()
    # For longer than its lease, so that every loop of it meets the outage.
    await eventually(lambda: db.execute("select 1 from worker where expires_at < now()").fetchone())
    assert 0 < proxy.accepted - before < FEW
    proxy.accept()
    await eventually(lambda: unfinished(db) == 0)
    assert_each_finished_once(db, jobs)
    assert only.process.poll() is None


async def test_the_kernel_is_told_to_notice_a_network_that_is_gone(
    proxy: Proxy, schema: str
) -> None:
    """For every connection over TCP: the engine's own, and those that user code draws on."""
    app = Headway(proxy.dsn, schema=schema)
    own = await connect(app._session.target)
    pool = await app._session.client.open()
    async with own, pool.connection() as users:
        for conn in (own, users):
            with socket.socket(fileno=os.dup(conn.fileno())) as tcp:
                assert tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 5
                assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 3
                assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000
    await app.close()
