"""The messages to systemd, received on a socket like its own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from headway.engine.health.systemd import Systemd
from tests.cli.conftest import APP
from tests.support import DEADLINE, eventually


class Receiver:
    """A socket that systemd would hold."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{name[1:]}" if name.startswith("@") else name)
        self._socket.settimeout(DEADLINE)
        self.heard: list[str] = []

    def until(self, words: str) -> str:
        """The first message with these words in it; all before it are kept."""
        while True:
            self.heard.append(self._socket.recv(4096).decode())
            if words in self.heard[-1]:
                return self.heard[-1]

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver(f"@headway-{uuid4()}")
    yield receiver
    receiver.close()


async def test_systemd_hears_that_a_worker_is_ready_alive_and_stopping(
    hw, start, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    @hw.task(queue="mail")
    async def send() -> None: ...

    monkeypatch.setenv("NOTIFY_SOCKET", receiver.name)
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    running = start()
    ready = await asyncio.to_thread(receiver.until, "READY=1")
    assert ready == "READY=1\nSTATUS=serving mail"
    assert running.worker.id, "it is ready once it may claim, and not before"
    await asyncio.to_thread(receiver.until, "WATCHDOG=1")
    await running.stop()
    assert await asyncio.to_thread(receiver.until, "STOPPING=1") == "STOPPING=1\nSTATUS=draining"
    assert sum("READY" in words for words in receiver.heard) == 1


async def test_a_heartbeat_that_is_stuck_is_not_called_well(
    hw, start, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    @hw.task
    async def send() -> None: ...

    monkeypatch.setenv("NOTIFY_SOCKET", receiver.name)
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    monkeypatch.setattr("headway.engine.health.state._SLOWEST_TURN", -1e9)
    running = start()
    await asyncio.to_thread(receiver.until, "READY=1")
    await running.stop()
    await asyncio.to_thread(receiver.until, "STOPPING=1")
    assert not [words for words in receiver.heard if "WATCHDOG" in words]


def test_a_socket_may_be_a_file() -> None:
    with tempfile.TemporaryDirectory() as place:
        receiver = Receiver(str(Path(place, "notify")))
        Systemd({"NOTIFY_SOCKET": receiver.name}).ready("two\nlines")
        assert receiver.until("READY") == "READY=1\nSTATUS=two lines"
        receiver.close()


@pytest.mark.parametrize(
    ("environment", "expects", "watchdog"),
    [
        ({}, False, None),
        ({"WATCHDOG_USEC": "3000000"}, False, None),
        ({"NOTIFY_SOCKET": "vsock:2:1"}, False, None),
        ({"NOTIFY_SOCKET": "@x"}, True, None),
        ({"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "3000000"}, True, 1.0),
        ({"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, True, None),
        ({"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "soon"}, True, None),
        ({"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "0"}, True, None),
    ],
)
def test_the_environment_says_what_systemd_expects(
    environment: dict[str, str], expects: bool, watchdog: float | None
) -> None:
    systemd = Systemd(environment)
    assert (systemd.expects, systemd.watchdog) == (expects, watchdog)


def test_nobody_to_hear_it_is_no_error() -> None:
    Systemd({"NOTIFY_SOCKET": f"@headway-nobody-{uuid4()}"}).ready("alone")
    Systemd({}).alive()


async def test_of_several_processes_the_supervisor_speaks_and_a_drained_one_stays_away(
    spawn_worker: Any, receiver: Receiver, db: Any, hw: Any
) -> None:
    """And each of them answers on a port of its own."""
    options = ("--processes", "2", "--health", "127.0.0.1:0", "--lease", "60s")
    supervisor = spawn_worker(APP, *options, NOTIFY_SOCKET=receiver.name)
    ready = await asyncio.to_thread(receiver.until, "READY=1")
    assert ready == "READY=1\nSTATUS=supervising 2 workers"

    def alive() -> list[int]:
        assert supervisor.process.poll() is None, supervisor.output()
        rows = db.execute("select id from worker where expires_at > now()").fetchall()
        return [worker for (worker,) in rows]

    first, second = await eventually(lambda: len(found := alive()) == 2 and found)
    assert supervisor.output().count("answering /livez, /readyz and /metrics on") == 2
    assert await hw.workers.drain(first) is True
    await eventually(lambda: "not starting it again" in supervisor.output())
    assert alive() == [second]
    assert await hw.workers.drain(first) is False, "it has gone"
    supervisor.send(signal.SIGTERM)
    stopping = await asyncio.to_thread(receiver.until, "STOPPING=1")
    assert stopping == "STOPPING=1\nSTATUS=draining 1 workers"
    assert supervisor.wait() == 0
    assert not [words for words in receiver.heard if "serving" in words]
