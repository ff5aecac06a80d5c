"""The demonstration: an embedded server, a worker process, and a shop's work for it.

main.py --bounded    a few hundred jobs, then a table; ends by itself
main.py              a trickle of jobs and a live table, until Ctrl-C
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
import time
from pathlib import Path
from uuid import UUID

import figures
import psycopg
import screen
from process import WorkerProcess
from rich.live import Live
from shop import count, hw
from work import DOOMED, ORDERS, a_few_hundred, a_trickle

_LONGEST = 40.0
_LONGEST_BURST = 15.0
_BURST = 5_000
_SHOWN = 2_000
"""The live table is about the newest jobs, so that an evening of it costs no more than a minute."""

say = screen.console.print


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bounded", action="store_true", help="a few hundred jobs, then stop")
    arguments = parser.parse_args()
    for name in ("HEADWAY_DATABASE_URL", "DATABASE_URL"):
        os.environ.pop(name, None)  # the demonstration never touches a database of yours
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        with hw:
            return bounded() if arguments.bounded else unbounded()
    except KeyboardInterrupt:
        return 130


def bounded() -> int:
    """Runs a few hundred jobs; 0 if every one of them ended as it should."""
    say(f"PostgreSQL runs in [bold]./.headway[/], its schema is migrated {_applied()}")
    with WorkerProcess(Path(".headway/demo-worker.log")) as worker, _connect() as conn:
        figures.open_ledger(conn)
        began = time.monotonic()
        made = a_few_hundred()
        say(f"enqueued {len(made.ids)} jobs; a worker process runs them\n")
        with screen.bar() as bar:
            shown = bar.add_task("jobs", total=len(made.ids), note="")
            while True:
                worker.check()
                now = figures.read(conn, made.ids)
                bar.update(shown, completed=now.ended, note=screen.note(now))
                if now.ended == len(made.ids) or time.monotonic() - began > _LONGEST:
                    break
                time.sleep(0.1)
        seconds = time.monotonic() - began
        burst = _burst(worker, conn)
        booked = figures.booked(conn)
    say()
    say(screen.closing(now, made.delayed, booked, seconds, burst))
    say("Look closer: [bold].venv/bin/headway job list[/], [bold]... job show ID[/]")
    if now.known != len(made.ids) or now.ended != now.known or now["failed"] != DOOMED:
        say(f"[red]expected {len(made.ids)} jobs to end, {DOOMED} of them failed[/]")
        return 1
    if booked != (ORDERS, ORDERS):
        say(f"[red]{booked[0]} payments of {booked[1]} orders, where there were {ORDERS}[/]")
        return 1
    if burst[0] != _BURST or worker.exit_code != 0:
        say(f"[red]{burst[0]} of the burst ended; the worker's exit code is {worker.exit_code}[/]")
        return 1
    return 0


def unbounded() -> int:
    """Keeps a worker busy until Ctrl-C."""
    say(f"PostgreSQL runs in [bold]./.headway[/], its schema is migrated {_applied()}")
    say(f"DSN: [bold]{hw.dsn}[/]\n", soft_wrap=True)
    say("Try, in another terminal, here:")
    for words in (
        "health",
        "queue list",
        "job list --state failed",
        "queue limit mail --rate 1/s",
        "schedule list",
    ):
        say(f"  .venv/bin/headway {words}")
    say("A dashboard is not part of this version yet. Ctrl-C stops everything.\n")
    with WorkerProcess(Path(".headway/demo-worker.log")) as worker, _connect() as conn:
        figures.open_ledger(conn)
        try:
            _keep_busy(worker, conn)
        except KeyboardInterrupt:
            say("stopping: the worker finishes what it runs")
    say(f"stopped; the worker's exit code is {worker.exit_code}")
    return 0 if worker.exit_code == 0 else 1


def _keep_busy(worker: WorkerProcess, conn: psycopg.Connection) -> None:
    ids: list[UUID] = []
    with Live(console=screen.console, refresh_per_second=4) as live:
        for turn in itertools.count():
            worker.check()
            ids = [*ids, *a_trickle()][-_SHOWN:]
            now = figures.read(conn, ids)
            live.update(screen.by_task(now))
            if not screen.console.is_terminal and turn % 10 == 9:
                say(screen.note(now))  # where nothing can be redrawn
            time.sleep(0.5)


def _burst(worker: WorkerProcess, conn: psycopg.Connection) -> tuple[int, float]:
    """How many small jobs a second one worker process does, when they all come at once."""
    jobs = count.enqueue_many_sync([{"n": n} for n in range(_BURST)])
    deadline = time.monotonic() + _LONGEST_BURST
    while figures.live(conn, "counters") and time.monotonic() < deadline:
        worker.check()
        time.sleep(0.1)
    return figures.rate(conn, [job.id for job in jobs])


def _connect() -> psycopg.Connection:
    return psycopg.connect(hw.dsn, autocommit=True)


def _applied() -> str:
    return f"({', '.join(hw.migrate_sync()) or 'up to date'})"


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
