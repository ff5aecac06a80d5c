"""Several processes under a supervisor: each answers on its own port; what cannot be is said once."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from headway.core.address import Address
from headway.engine.health.http import bind
from headway.errors import ConfigError
from tests.fixtures.processes import WorkerProcess
from tests.health.ask import get_blocking
from tests.support import eventually_sync

_APP = "tests.cli.shop:hw"
_HOST = "127.0.0.1"


@pytest.fixture
def taken() -> Iterator[int]:
    with bind(Address(_HOST, 0)) as held:
        yield held.getsockname()[1]


def _neighbours() -> int:
    """The first of two ports that are free, away from those that the system gives out itself."""
    chance = random.Random(os.getpid())
    while True:
        first = chance.randrange(20_000, 30_000)
        with ExitStack() as both:
            try:
                for number in range(2):
                    both.enter_context(bind(Address(_HOST, first).next(number)))
            except ConfigError:
                continue
            return first


@pytest.mark.parametrize("before", [0, 1], ids=["the first", "the second"])
def test_a_port_that_is_taken_is_said_once_and_nothing_is_started(
    spawn_worker: Callable[..., WorkerProcess], taken: int, before: int
) -> None:
    worker = spawn_worker(_APP, "--processes", "2", "--health", str(taken - before))
    assert worker.wait() == 2
    (line,) = worker.output().splitlines()
    assert line.startswith("error: health: cannot listen on 127.0.0.1:")


def test_ports_beyond_the_last_one_are_said_once(
    spawn_worker: Callable[..., WorkerProcess],
) -> None:
    worker = spawn_worker(_APP, "--processes", "2", "--health", "65535")
    assert worker.wait() == 2
    (line,) = worker.output().splitlines()
    assert line.startswith("error: health: ")


def test_each_process_answers_one_port_further(spawn_worker: Callable[..., WorkerProcess]) -> None:
    first = _neighbours()
    worker = spawn_worker(_APP, "--processes", "2", HEADWAY_WORKER__HEALTH=str(first))

    def ready(port: int) -> bool:
        assert worker.process.poll() is None, worker.output()
        try:
            return get_blocking(port, "/readyz") == 200
        except OSError:
            return False  # it does not answer yet

    for port in (first, first + 1):
        eventually_sync(lambda port=port: ready(port))
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
