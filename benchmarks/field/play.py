"""One workload of one system: programs are started, told to go, and measured from outside."""

from __future__ import annotations

import json
import os
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.field.environments import Environment
from benchmarks.field.ground import Ground, tree_cpu, url_of
from benchmarks.field.systems import System

_GIVE_UP_AFTER = 300.0
_WARM_UP = 50
"""Jobs that a producer enqueues before it starts (protocol.py)."""
_CHUNK = 5_000
_LARGE = {"BENCH_CONCURRENCY": "500", "BENCH_BATCH": "500"}
"""For workers that have a backlog."""
PRODUCERS = 16


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each workload: seconds of enqueues, jobs of a bulk and of a drain, paced jobs, flows,
    jobs that wait in the backlog."""

    seconds: float = 5.0
    bulk: int = 50_000
    drain: int = 100_000
    paced: int = 300
    interval: float = 0.02
    flows: int = 5_000
    backlog: int = 1_000_000

    @classmethod
    def quick(cls) -> Sizes:
        return cls(seconds=0.5, bulk=1_000, drain=1_000, paced=30, flows=50, backlog=5_000)


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one run of a workload. CPU and WAL are for each job."""

    jobs: int
    rate: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    client_us: float | None = None
    server_us: float | None = None
    wal_bytes: float | None = None

    def document(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


class Player:
    """Runs the workloads of one system."""

    def __init__(self, system: System, environment: Environment, ground: Ground) -> None:
        self._system = system
        self._environment = environment
        self._ground = ground
        self._template = "field_" + "".join(c if c.isalnum() else "_" for c in system.name)
        self._folder = Path(tempfile.mkdtemp(prefix="headway-field-"))
        self._has_backlog = False
        self._set_up()

    def play(self, workload: str, sizes: Sizes) -> Reading:
        """Run one workload in a database of its own."""
        for file in self._folder.iterdir():
            file.unlink()
        dsn = self._ground.database(f"{self._template}_run", self._template)
        self._ground.clear()
        match workload:
            case "enqueue":
                return self._produce(dsn, "enqueue", "1", str(sizes.seconds))
            case "producers":
                return self._produce(dsn, "enqueue", str(PRODUCERS), str(sizes.seconds))
            case "bulk":
                return self._produce(dsn, "bulk", str(sizes.bulk), str(_CHUNK))
            case "drain":
                return self._drain(dsn, sizes, 1)
            case "drain 2":
                return self._drain(dsn, sizes, 2)
            case "pick-up":
                return self._pick_up(dsn, sizes)
            case "flows":
                return self._flows(dsn, sizes)
            case "backlog":
                return self._backlog(sizes)
            case "pinned":
                return self._drain(dsn, sizes, 1, pinned=True)
            case "mixed":
                return self._mixed(dsn, sizes)
            case _:
                raise ValueError(f"there is no workload {workload!r}")

    # -- workloads --------------------------------------------------------------------------------

    def _produce(self, dsn: str, *command: str) -> Reading:
        with self._program(dsn, *command) as program:
            before = self._counters([program])
            self._go(program)
            result = self._result(program)
            return self._reading(int(result["jobs"]), float(result["seconds"]), before, [program])

    def _drain(self, dsn: str, sizes: Sizes, processes: int, *, pinned: bool = False) -> Reading:
        """Measure from the start of the workers until the last row is finished. `pinned`: another
        session holds a snapshot all the time."""
        count = min(sizes.drain, self._system.most)
        self._fill(dsn, "bulk", str(count), str(_CHUNK))
        with (
            _snapshot(dsn) if pinned else nullcontext(),
            _all(self._program(dsn, "work", **_LARGE) for _ in range(processes)) as programs,
        ):
            return self._until_finished(dsn, count, programs)

    def _flows(self, dsn: str, sizes: Sizes) -> Reading:
        """Flows of five steps, from the start of the worker until the last is finished."""
        count = max(10, min(sizes.flows, self._system.most // 10))
        self._fill(dsn, "flows", str(count))
        with self._program(dsn, "work", **_LARGE) as program:
            return self._until_finished(dsn, count, [program])

    def _backlog(self, sizes: Sizes) -> Reading:
        """The first jobs of a long backlog. It is filled once, and copied for each round."""
        template = f"{self._template}_backlog"
        if not self._has_backlog:
            dsn = self._ground.database(template, self._template)
            self._fill(dsn, "bulk", str(sizes.backlog), str(_CHUNK))
            self._has_backlog = True
        dsn = self._ground.database(f"{self._template}_run", template)
        self._ground.clear()
        count = min(sizes.drain, sizes.backlog) // 2
        with self._program(dsn, "work", **_LARGE) as program:
            before, begin = self._counters([program]), time.perf_counter()
            self._go(program)
            self._await_calls(count, [program])
            return self._reading(self._calls(), time.perf_counter() - begin, before, [program])

    def _mixed(self, dsn: str, sizes: Sizes) -> Reading:
        """Four callers enqueue one by one while a worker runs: all jobs, until the last is finished."""
        with (
            self._program(dsn, "work") as worker,
            self._program(dsn, "enqueue", "4", str(sizes.seconds)) as producer,
        ):
            programs = [worker, producer]
            before, begin = self._counters(programs), time.perf_counter()
            self._go(worker)
            self._go(producer)
            count = int(self._result(producer)["jobs"]) + _WARM_UP
            self._await_calls(count, [worker])
            self._await_end(dsn)
            return self._reading(count, time.perf_counter() - begin, before, programs)

    def _until_finished(
        self, dsn: str, count: int, programs: list[subprocess.Popen[str]]
    ) -> Reading:
        before, begin = self._counters(programs), time.perf_counter()
        for program in programs:
            self._go(program)
        self._await_calls(count, programs)
        self._await_end(dsn)
        return self._reading(count, time.perf_counter() - begin, before, programs)

    def _pick_up(self, dsn: str, sizes: Sizes) -> Reading:
        with (
            self._program(dsn, "work") as worker,
            self._program(dsn, "paced", str(sizes.paced), str(sizes.interval)) as producer,
        ):
            self._go(worker)
            self._await_calls(1, [worker])
            self._go(producer)
            self._result(producer)
            self._await_calls(sizes.paced + 1, [worker])
        delays = sorted(
            float(line) * 1000
            for file in self._folder.glob("*.delays")
            for line in file.read_text().split()
        )
        worst = delays[min(len(delays) - 1, int(len(delays) * 0.99))]
        return Reading(len(delays), p50_ms=statistics.median(delays), p99_ms=worst)

    def _fill(self, dsn: str, *command: str) -> None:
        with self._program(dsn, *command) as program:
            self._go(program)
            self._result(program)
        self._ground.clear()
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("vacuum analyze")

    # -- programs ---------------------------------------------------------------------------------

    def _set_up(self) -> None:
        dsn = self._ground.database(self._template)
        command = [*self._environment.command, "setup"]
        done = subprocess.run(command, env=self._variables(dsn), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"its setup failed: {done.stderr.strip()[-300:]}")

    def _variables(self, dsn: str, **more: str) -> dict[str, str]:
        variables = {"BENCH_DSN": dsn, "BENCH_URL": url_of(dsn), "BENCH_FOLDER": str(self._folder)}
        if self._ground.redis is not None:
            variables["BENCH_REDIS"] = self._ground.redis
        return {**os.environ, **variables, **self._system.settings, **more}

    @contextmanager
    def _program(self, dsn: str, *command: str, **options: str) -> Iterator[subprocess.Popen[str]]:
        program = subprocess.Popen(
            [*self._environment.command, *command],
            env=self._variables(dsn, **options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            self._line(program, "READY")
            yield program
        finally:
            program.kill()
            program.wait()

    def _go(self, program: subprocess.Popen[str]) -> None:
        assert program.stdin is not None
        program.stdin.write("go\n")
        program.stdin.flush()

    def _result(self, program: subprocess.Popen[str]) -> dict[str, Any]:
        return json.loads(self._line(program, "RESULT "))

    def _line(self, program: subprocess.Popen[str], word: str) -> str:
        assert program.stdout is not None
        for line in program.stdout:
            if line.startswith(word):
                return line.removeprefix(word)
        raise RuntimeError(f"{self._system.name} ended with {program.wait()} before it said {word}")

    # -- readings ---------------------------------------------------------------------------------

    def _await_calls(self, count: int, programs: list[subprocess.Popen[str]]) -> None:
        give_up_at = time.perf_counter() + _GIVE_UP_AFTER
        while self._calls() < count:
            if any(program.poll() is not None for program in programs):
                raise RuntimeError(f"a worker of {self._system.name} ended")
            if time.perf_counter() > give_up_at:
                raise RuntimeError(
                    f"{self._system.name} ran {self._calls()} of {count} jobs in time"
                )
            time.sleep(0.005)

    def _await_end(self, dsn: str) -> None:
        if self._system.unfinished is None:
            return
        with psycopg.connect(dsn, autocommit=True) as conn:
            while conn.execute(self._system.unfinished).fetchone() != (0,):  # type: ignore[call-overload]
                time.sleep(0.005)

    def _calls(self) -> int:
        read = (file.read_bytes() for file in self._folder.glob("*.calls"))
        return sum(struct.unpack("q", value)[0] for value in read if len(value) == 8)

    def _counters(self, programs: list[subprocess.Popen[str]]) -> tuple[float, float, int]:
        client = sum(tree_cpu(program.pid) for program in programs)
        return client, self._ground.server_cpu(), self._ground.wal()

    def _reading(
        self,
        jobs: int,
        seconds: float,
        before: tuple[float, float, int],
        programs: list[subprocess.Popen[str]],
    ) -> Reading:
        client, server, wal = self._counters(programs)
        return Reading(
            jobs,
            rate=jobs / seconds,
            client_us=(client - before[0]) / jobs,
            server_us=(server - before[1]) / jobs,
            wal_bytes=(wal - before[2]) / jobs,
        )


@contextmanager
def _all(managers: Iterator[Any]) -> Iterator[list[Any]]:
    with ExitStack() as stack:
        yield [stack.enter_context(manager) for manager in managers]


@contextmanager
def _snapshot(dsn: str) -> Iterator[None]:
    """Hold a snapshot, so that no dead row can be removed meanwhile."""
    with psycopg.connect(dsn) as conn:
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.execute("select 1")
        yield
