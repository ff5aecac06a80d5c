"""The cost of an idle worker.

    .venv/bin/python -m benchmarks.idle [--seconds 20] [--rounds 3] [--settle 10] [--dsn DSN]

A worker process with one queue, with 1,000 named ones, and with `*`; and the last two where each of
1,000 queues holds a job that this worker does not know. Each has a schema of its own and all run at
the same time, so that they see the same machine. After a while to settle, windows of `--seconds`:
CPU of the process and of its backends, and what it asks the database.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import statistics
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.measure import Meter, Traffic, arguments, cpu_of, machine, server
from headway import Headway

_QUEUES = 1_000
_MANY = {f"queue-{n}": 1 for n in range(_QUEUES)}

CASES: dict[str, tuple[dict[str, int], bool]] = {
    "1 queue": ({"default": 1}, False),
    "1,000 queues": (_MANY, False),
    "*": ({"*": 1}, False),
    "1,000 queues with a job for others": (_MANY, True),
    "*, 1,000 queues with a job for others": ({"*": 1}, True),
}


def app(dsn: str, schema: str) -> Headway:
    hw = Headway(dsn, schema=schema)

    @hw.task
    async def noop(n: int) -> int:
        return n

    return hw


def fill(dsn: str, schema: str) -> None:
    """A job in each queue, of a task that the measured worker does not know."""
    hw = Headway(dsn, schema=schema)

    @hw.task
    async def foreign(n: int) -> int:
        return n

    foreign.enqueue_many_sync(foreign.using(queue=queue).call(n) for n, queue in enumerate(_MANY))


def serve(dsn: str, schema: str, queues: dict[str, int], told: Any) -> None:
    """Serves until SIGTERM, and tells at SIGUSR1 what it has sent so far."""

    async def main() -> None:
        Traffic.count()
        worker = app(dsn, schema).worker(queues=queues)

        def tell() -> None:
            told[:] = [told[0] + 1, Traffic.round_trips, Traffic.statements]

        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, tell)
        loop.add_signal_handler(signal.SIGTERM, worker.stop)
        tell()
        await worker.run()

    uvloop.run(main())


@dataclass(slots=True)
class Sample:
    """Counters of a worker so far: seconds of CPU in Python and in its backends, and what it sent."""

    at: float
    python: float
    backend: float
    round_trips: float
    statements: float


@dataclass(slots=True)
class Idle:
    """A worker process that is watched."""

    process: BaseProcess
    told: Any
    meter: Meter

    def sample(self) -> Sample:
        pid = self.process.pid
        assert pid is not None
        before = self.told[0]
        os.kill(pid, signal.SIGUSR1)
        while self.told[0] == before:
            time.sleep(0.001)
        backend = sum(self.meter.backends(f"headway worker {pid}%").values())
        return Sample(time.monotonic(), (cpu_of(pid) or 0) / 1e6, backend / 1e6, *self.told[1:])


def begin(dsn: str, meter: Meter) -> dict[str, Idle]:
    spawn = multiprocessing.get_context("spawn")
    workers: dict[str, Idle] = {}
    for number, (name, (queues, filled)) in enumerate(CASES.items()):
        schema = f"idle_{number}"
        Headway(dsn, schema=schema).migrate_sync()
        if filled:
            fill(dsn, schema)
        told = spawn.Array("d", 3, lock=False)
        process = spawn.Process(target=serve, args=(dsn, schema, queues, told))
        process.start()
        workers[name] = Idle(process, told, meter)
    for worker in workers.values():
        while worker.told[0] == 0:
            if not worker.process.is_alive():
                raise RuntimeError("a worker process did not start")
            time.sleep(0.01)
    return workers


Windows = dict[str, list[tuple[Sample, Sample]]]


def watch(workers: dict[str, Idle], seconds: float, rounds: int) -> Windows:
    windows: Windows = {name: [] for name in workers}
    last = {name: worker.sample() for name, worker in workers.items()}
    for _ in range(rounds):
        time.sleep(seconds)
        now = {name: worker.sample() for name, worker in workers.items()}
        for name in workers:
            windows[name].append((last[name], now[name]))
        last = now
    return windows


def tell(windows: Windows) -> None:
    print(f"\n{'':40} {'CPU s a minute':^35}   {'a second':^20}")
    print(f"{'':40} {'Python':>17} {'PostgreSQL':>17}   round trips  statements  (medians, spread)")
    for name, pairs in windows.items():

        def figures(field: str, per: float, pairs: Any = pairs) -> list[float]:
            return [
                (getattr(new, field) - getattr(old, field)) / (new.at - old.at) * per
                for old, new in pairs
            ]

        python, backend = figures("python", 60), figures("backend", 60)
        trips, statements = (
            statistics.median(figures(f, 1)) for f in ("round_trips", "statements")
        )
        print(
            f"{name:40} {_spread(python):>17} {_spread(backend):>17}   {trips:11.2f}  {statements:10.2f}"
        )


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def main() -> None:
    parser = arguments(__doc__, jobs=0, rounds=3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--settle", type=float, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, server(options.dsn, Path(folder)) as dsn:
        print(f"{options.rounds} windows of {options.seconds:g} s; {machine(dsn)}")
        meter = Meter(dsn)
        workers = begin(dsn, meter)
        try:
            time.sleep(options.settle)
            windows = watch(workers, options.seconds, options.rounds)
        finally:
            for worker in workers.values():
                worker.process.terminate()
            for worker in workers.values():
                worker.process.join()
            meter.close()
    tell(windows)


if __name__ == "__main__":
    main()
