"""A worker that is asked how it is, while it works, drains, hangs, and while the database is away."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from headway import Headway
from headway.errors import ConfigError
from headway.store import migrate
from tests.crash.proxy import Proxy
from tests.health.ask import Reply, figure_blocking, get, get_blocking, port_said
from tests.support import DEADLINE, Running, eventually


async def _until(port: int, path: str, status: int) -> Reply:
    async def asked() -> Reply | None:
        reply = await get(port, path)
        return reply if reply.status == status else None

    return await eventually(asked)


async def _finds(port: int, about: str, status: str) -> Reply:
    async def asked() -> Reply | None:
        reply = await get(port, "/readyz")
        return reply if reply.finding(about)[0] == status else None

    return await eventually(asked)


class Gate:
    def __init__(self, hw: Headway) -> None:
        self.began = asyncio.Event()
        self.opened = asyncio.Event()

        @hw.task(queue="mail")
        async def gate() -> str:
            self.began.set()
            await self.opened.wait()
            return "let go"

        self.task = gate


@pytest.fixture
def gate(hw: Headway) -> Gate:
    """A task that says that it began and waits to be let go."""
    return Gate(hw)


async def test_a_worker_that_serves_is_alive_and_ready_and_has_figures(hw, gate, observed) -> None:
    running, where = observed(concurrency=7)
    port = await eventually(where)
    reply = await _until(port, "/readyz", 200)
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.finding("schema") == ("ok", f"{hw._session.schema}, version {migrate.newest()}")
    assert reply.finding("database")[1].startswith("connected in ")
    assert reply.finding("lease")[1].startswith("the last heartbeat was ")
    assert reply.finding("worker") == ("ok", "0 of 7 slots taken")
    assert (await get(port, "/livez")).status == 200

    gate.opened.set()
    assert await (await gate.task.enqueue()).result(timeout=DEADLINE) == "let go"
    gate.opened.clear()
    gate.began.clear()
    held = await gate.task.enqueue()
    await gate.began.wait()
    later = [await gate.task.using(delay="1h").enqueue() for _ in range(3)]
    await hw.queues.pause("quiet")

    async def counted() -> dict[str, float] | None:
        figures = (await get(port, "/metrics")).figures()
        return figures if 'headway_queue_paused{queue="quiet"}' in figures else None

    figures = await eventually(counted)
    assert figures['headway_jobs_settled_total{verdict="succeed"}'] == 1
    assert figures["headway_jobs_running"] == 1
    assert figures["headway_slots"] == 7
    assert figures["headway_database_up"] == figures["headway_schema_fits"] == 1
    assert figures["headway_lease_trusted"] == figures["headway_leader"] == 1
    assert figures["headway_job_loop_round_trips_total"] >= 2
    assert figures['headway_queue_jobs{queue="mail",state="running"}'] == 1
    assert figures['headway_queue_jobs{queue="mail",state="scheduled"}'] == len(later)
    assert figures['headway_queue_jobs_ended_total{queue="mail",state="succeeded"}'] == 1
    assert figures['headway_queue_paused{queue="quiet"}'] == 1
    info = f'version="{running.worker._spec.version}",schema="{hw._session.schema}"'
    assert figures[f'headway_worker_info{{{info},worker="{running.worker.id}"}}'] == 1
    gate.opened.set()
    await held.result(timeout=DEADLINE)


async def test_slots_of_a_queue_s_own_and_limits_are_among_the_figures(hw, gate, observed) -> None:
    _, where = observed(concurrency=7, queues={"default": 1}, dedicated={"mail": 2})
    port = await eventually(where)
    await gate.task.enqueue()
    await gate.began.wait()
    await hw.queues.limit("mail", concurrency=5, rate="2/s")
    await hw.controls.pause(task="gate")

    async def counted() -> dict[str, float] | None:
        figures = (await get(port, "/metrics")).figures()
        return figures if 'headway_task_paused{task="gate"}' in figures else None

    figures = await eventually(counted)
    assert figures["headway_slots"] == 9
    assert figures['headway_dedicated_slots{queue="mail"}'] == 2
    assert figures['headway_dedicated_slots_taken{queue="mail"}'] == 1
    assert figures['headway_queue_limit{queue="mail"}'] == 5
    assert figures['headway_queue_rate_limit{queue="mail"}'] == 2
    assert figures['headway_queue_paused{queue="mail"}'] == 0
    assert figures['headway_task_paused{task="gate"}'] == 1
    reply = await get(port, "/readyz")
    assert reply.finding("worker") == ("ok", "1 of 9 slots taken (mail: 1 of its 2)")
    gate.opened.set()


async def test_a_worker_that_drains_is_alive_but_not_ready_and_then_answers_no_more(
    hw, gate, observed
) -> None:
    running, where = observed(grace="1h")
    port = await eventually(where)
    await gate.task.enqueue()
    await gate.began.wait()
    await _until(port, "/readyz", 200)
    running.worker.stop()
    reply = await _until(port, "/readyz", 503)
    status, words = reply.finding("worker")
    assert (status, words.split(":")[0]) == ("wrong", "draining")
    assert (await get(port, "/livez")).status == 200
    assert (await get(port, "/metrics")).figures()["headway_draining"] == 1
    gate.opened.set()
    await eventually(running.done)
    assert running.worker.report.settled == {"succeed": 1}
    assert "headway-health" not in [thread.name for thread in threading.enumerate()]


async def test_a_loop_that_hangs_longer_than_the_lease_is_not_alive_and_says_so_itself(
    hw, observed
) -> None:
    asked: list[int] = []
    places: list[int] = []
    trusted: list[float] = []

    @hw.task
    async def hang() -> None:
        """Blocks the worker's loop, as no task should, until it is not alive and its lease is over."""
        deadline = time.monotonic() + DEADLINE
        while not asked or (asked[-1] != 503 and time.monotonic() < deadline):
            asked.append(get_blocking(places[0], "/livez"))
            time.sleep(0.02)
        while figure_blocking(places[0], "headway_lease_trusted") and time.monotonic() < deadline:
            time.sleep(0.02)
        trusted.append(figure_blocking(places[0], "headway_lease_trusted"))

    running, where = observed(lease="1s")
    places.append(await eventually(where))
    await _until(places[0], "/livez", 200)
    await hang.enqueue()
    await eventually(lambda: trusted)
    assert asked[-1] == 503
    assert trusted == [0], "it has not noticed, but its lease is over"
    await _until(places[0], "/livez", 200)
    await _until(places[0], "/readyz", 200)
    assert not running.done()


async def test_a_lease_that_cannot_be_renewed_is_not_ready_and_no_reason_to_die(
    hw, gate, observed, db
) -> None:
    _, where = observed(lease="3s")
    port = await eventually(where)
    await _until(port, "/readyz", 200)
    with db.transaction():
        db.execute("lock table worker in exclusive mode")  # no beat, and no new worker either
        reply = await _finds(port, "lease", "wrong")
        assert reply.status == 503
        await _finds(port, "database", "ok")
        await _until(port, "/livez", 200)
    await _until(port, "/readyz", 200)


async def test_a_schema_that_does_not_fit_any_more_is_not_ready(hw, gate, observed, db) -> None:
    _, where = observed()
    port = await eventually(where)
    await _until(port, "/readyz", 200)
    newest = migrate.newest()
    db.execute("insert into migration values (98, 'later', 'x', %s)", [newest])
    assert (await get(port, "/readyz")).status == 200, "it suits this library"
    db.execute("update migration set version = 99, suits = 99 where version = 98")
    reply = await _until(port, "/readyz", 503)
    status, words = reply.finding("schema")
    assert status == "wrong"
    assert "at version 99, newer than this library" in words
    assert (await get(port, "/livez")).status == 200
    assert (await get(port, "/metrics")).figures()["headway_schema_fits"] == 0
    db.execute("delete from migration where version = 99")
    await _until(port, "/readyz", 200)


async def test_a_database_that_is_away_is_not_ready_and_what_the_worker_knows_is_still_said(
    dsn: str, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "headway.worker")
    with Proxy(dsn) as proxy:
        hw = Headway(proxy.dsn, schema=schema)

        @hw.task
        async def add(a: int, b: int) -> int:
            return a + b

        running = Running(hw.worker(health="127.0.0.1:0", concurrency=5, grace="1s"))
        try:
            port = await eventually(lambda: port_said(caplog.text))
            await _until(port, "/readyz", 200)
            assert await (await add.enqueue(1, 2)).result(timeout=DEADLINE) == 3
            # The result may be heard of before the worker has the answer to its settling.
            await eventually(lambda: running.worker.report.total == 1)
            proxy.refuse()
            reply = await _until(port, "/readyz", 503)
            assert reply.finding("database")[0] == "wrong"
            assert str(proxy.dsn.split("port=")[1].split()[0]) not in reply.body, "names no server"
            await _until(port, "/livez", 200)
            figures = (await get(port, "/metrics")).figures()
            assert figures["headway_database_up"] == 0
            assert figures['headway_jobs_settled_total{verdict="succeed"}'] == 1
            assert figures["headway_slots"] == 5
            proxy.accept()
            await _until(port, "/readyz", 200)
        finally:
            await running.stop()
            await hw.close()


async def test_a_database_that_does_not_answer_holds_nobody_up(
    dsn: str, schema: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.engine.health.probe._TIMEOUT", 0.3)
    caplog.set_level("INFO", "headway.worker")
    with Proxy(dsn) as proxy:
        hw = Headway(proxy.dsn, schema=schema)

        @hw.task
        async def add(a: int, b: int) -> int:
            return a + b

        running = Running(hw.worker(health="127.0.0.1:0", grace="1s"))
        try:
            port = await eventually(lambda: port_said(caplog.text))
            await _until(port, "/livez", 200)
            await eventually(lambda: running.worker.id)
            proxy.black_hole()
            reply = await _until(port, "/readyz", 503)
            assert reply.finding("database")[0] == "wrong"
            assert (await get(port, "/metrics")).figures()["headway_database_up"] == 0
            proxy.thaw()
        finally:
            proxy.thaw()
            await running.stop()
            await hw.close()


async def test_no_endpoint_is_opened_unless_one_is_asked_for(hw, gate, start, caplog) -> None:
    caplog.set_level("INFO", "headway.worker")
    running = start()
    await eventually(lambda: running.worker.id)
    await hw.run_until_idle(health="127.0.0.1:0")  # a script is nobody's service
    await running.stop()
    assert port_said(caplog.text) is None


async def test_an_address_that_cannot_be_is_said_at_the_start(hw, gate, observed) -> None:
    _, where = observed()
    port = await eventually(where)
    with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
        await hw.run_worker(signals=False, health=port)
