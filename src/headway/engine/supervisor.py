"""Several worker processes under one parent that restarts dead ones and ends after all have ended.

Each worker holds the read end of a pipe, its leash, to which nothing is ever written. Only the supervisor
holds the write end. When the supervisor ends in whatever way, SIGKILL included, the kernel closes the
pipe, and every worker notices that and drains.
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
"""The exit code of a worker that an operator drained. The supervisor does not start it again."""

_QUICK = 10.0
"""A worker that lived for less than this most likely failed to start, and would fail again."""
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_AFTER_GRACE = 20.0
"""Seconds that a worker has after its grace to settle and close before it is killed."""


class Supervisor:
    """Keeps `count` workers running until SIGTERM or SIGINT, then waits for all of them to drain."""

    def __init__(
        self, command: Callable[[int, int], Sequence[str]], count: int, *, grace: float
    ) -> None:
        """`command` makes a worker's command line from its leash and its number."""
        self._command = command
        self._systemd = Systemd()
        self._count = count
        self._drain_timeout = grace + _AFTER_GRACE
        self._stopping = asyncio.Event()
        self._workers: set[Process] = set()

    async def run(self) -> int:
        """Run until every worker has ended. Return 0 if all of them drained, else 1."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        theirs, ours = os.pipe()
        log.info("starting %d workers", self._count)
        notifier = _SystemdNotifier(self._systemd, self._count)
        notifier.start()
        try:
            keeping = [asyncio.create_task(self._keep(n, theirs)) for n in range(self._count)]
            return max(await asyncio.gather(*keeping))
        finally:
            await notifier.stop()
            os.close(ours)
            os.close(theirs)

    def stop(self) -> None:
        """Make all workers drain. A second call signals them again, and they stop at once."""
        if not self._stopping.is_set():
            log.info("draining %d workers", len(self._workers))
            self._systemd.stopping(f"draining {len(self._workers)} workers")
        self._stopping.set()
        for worker in self._workers:
            _signal(worker, signal.SIGTERM)

    async def _keep(self, number: int, leash: int) -> int:
        """Keep one worker running. Return its exit code after the stop, 0 or 1."""
        pause = 0.0
        while not self._stopping.is_set():
            began = monotonic()
            code = await self._one(leash, number)
            if code == DRAINED:
                log.info("worker %d was drained by an operator; not starting it again", number)
                return 0
            if self._stopping.is_set():
                # One that died of the signal did not handle signals yet, so it held no job.
                return 0 if code in (0, -signal.SIGTERM) else 1
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
        """Run one worker from its start to its end. Return its exit code."""
        # Only the supervisor talks to systemd.
        environment = {name: value for name, value in os.environ.items() if name not in NAMES}
        worker = await asyncio.create_subprocess_exec(
            *self._command(leash, number), pass_fds=[leash], env=environment
        )
        self._workers.add(worker)
        if self._stopping.is_set():  # a stop arrived while it was being started
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
                await asyncio.wait([ended], timeout=self._drain_timeout)
            if not ended.done():
                log.error("worker process %d did not drain; killing it", worker.pid)
                _signal(worker, signal.SIGKILL)
            return await ended
        finally:
            self._workers.discard(worker)


class _SystemdNotifier(Service):
    """Tells systemd that the supervisor is alive, for as long as its event loop runs."""

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
        """Call `gone` once if the supervisor ends during the block."""
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
    """Return the seconds before the next start: 0 after a long life, longer after each short one.

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
