"""Several worker processes under one parent that starts the dead again and ends with the living.

Each worker holds the read end of a pipe, its leash, that nobody ever writes to. The write end is the
supervisor's alone, so the kernel closes it when the supervisor ends in whatever way, SIGKILL
included, and every worker sees the end of the pipe and drains.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Callable, Generator, Sequence

from headway.core.clock import monotonic
from headway.engine.health.systemd import NAMES, Systemd
from headway.engine.service import Service

log = logging.getLogger("headway.supervisor")

DRAINED = 10
"""The exit code of a worker that was drained from afar: it is not to be started again."""

_QUICK = 10.0
"""A worker that lived less than this died of its start, most likely, and would do so again."""
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_AFTER_GRACE = 20.0
"""What a worker may take to settle and close once its grace is over, before it is killed."""


class Supervisor:
    """Keeps `count` workers running until SIGTERM or SIGINT, then waits for all of them to drain."""

    def __init__(
        self, command: Callable[[int, int], Sequence[str]], count: int, *, grace: float
    ) -> None:
        """`command` makes a worker's command line from its leash and its own number."""
        self._command = command
        self._systemd = Systemd()
        self._count = count
        self._patience = grace + _AFTER_GRACE
        self._stopping = asyncio.Event()
        self._workers: set[Process] = set()

    async def run(self) -> int:
        """Returns when every worker has ended: 0 if all of them drained, else 1."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        theirs, ours = os.pipe()
        log.info("starting %d workers", self._count)
        pulse = _Pulse(self._systemd, self._count)
        pulse.start()
        try:
            keeping = [asyncio.create_task(self._keep(n, theirs)) for n in range(self._count)]
            return max(await asyncio.gather(*keeping))
        finally:
            await pulse.stop()
            os.close(ours)
            os.close(theirs)

    def stop(self) -> None:
        """Has all workers drain; told again, they are told again, and wait for nobody."""
        if not self._stopping.is_set():
            log.info("draining %d workers", len(self._workers))
            self._systemd.stopping(f"draining {len(self._workers)} workers")
        self._stopping.set()
        for worker in self._workers:
            _signal(worker, signal.SIGTERM)

    async def _keep(self, number: int, leash: int) -> int:
        """Keeps one worker running; its exit code after the stop, 0 or 1."""
        pause = 0.0
        while not self._stopping.is_set():
            began = monotonic()
            code = await self._one(leash, number)
            if code == DRAINED:
                log.info("worker %d was drained from afar; it is not started again", number)
                return 0
            if self._stopping.is_set():
                return 0 if code == 0 else 1
            lived = monotonic() - began
            pause = _next_pause(pause, lived)
            log.error(
                "worker %d %s after %.1f s; starting another in %.1f s",
                number,
                _how(code),
                lived,
                pause,
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
        return 0

    async def _one(self, leash: int, number: int) -> int:
        """Runs one worker from its start to its end."""
        # It is the supervisor that speaks with systemd.
        environment = {name: value for name, value in os.environ.items() if name not in NAMES}
        worker = await asyncio.create_subprocess_exec(
            *self._command(leash, number), pass_fds=[leash], env=environment
        )
        self._workers.add(worker)
        if self._stopping.is_set():  # while it was being started
            _signal(worker, signal.SIGTERM)
        log.info("worker process %d started", worker.pid)
        try:
            ended = asyncio.ensure_future(worker.wait())
            await asyncio.wait(
                [ended, stopping := asyncio.ensure_future(self._stopping.wait())],
                return_when=asyncio.FIRST_COMPLETED,
            )
            stopping.cancel()
            if not ended.done():
                await asyncio.wait([ended], timeout=self._patience)
            if not ended.done():
                log.error("worker process %d did not drain; killing it", worker.pid)
                _signal(worker, signal.SIGKILL)
            return await ended
        finally:
            self._workers.discard(worker)


class _Pulse(Service):
    """Says to systemd that there is a supervisor, for as long as its loop turns."""

    def __init__(self, systemd: Systemd, count: int) -> None:
        super().__init__()
        self._systemd = systemd
        self._systemd.ready(f"supervising {count} workers")

    async def turn(self) -> float | None:
        if self._systemd.watchdog is not None:
            self._systemd.alive()
        return self._systemd.watchdog


class Leash:
    """A worker's end of the pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @contextlib.contextmanager
    def watch(self, gone: Callable[[], None]) -> Generator[None]:
        """Calls `gone` once when the supervisor is no more, for as long as the block lasts."""
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(self._fd)
            log.warning("the supervisor is gone; draining")
            gone()

        loop.add_reader(self._fd, ended)
        try:
            yield
        finally:
            loop.remove_reader(self._fd)


def _next_pause(pause: float, lived: float) -> float:
    """How long to wait before the next start: nothing after a long life, ever longer after short ones.

    >>> _next_pause(0, lived=60), _next_pause(0, lived=1), _next_pause(20, lived=1)
    (0.0, 0.5, 30.0)
    """
    if lived >= _QUICK:
        return 0.0
    return min(max(pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)


def _how(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _signal(worker: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        worker.send_signal(number)
