"""`scripts/ha`: start the cluster, load it, strike it, count."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

from ha_cluster import counts, packages
from ha_cluster.cluster import DATABASES, Cluster
from ha_cluster.faults import PLANS, carry_out
from ha_cluster.load import Load
from ha_cluster.processes import Processes

_LIMIT = 900
"""Seconds for a whole run; past it everything is stopped."""
_DRAIN_WITHIN = 120.0


def say(words: str) -> None:
    print(f"ha: {words}", file=sys.stderr, flush=True)


def main() -> int:
    options = _options()
    try:
        packages.ensure()
    except packages.Missing as missing:
        say(str(missing))
        return 2
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # a shell ignores SIGINT for what it starts with &
        signal.signal(number, _stopped)
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(_LIMIT)
    directory = Path(tempfile.mkdtemp(prefix="headway-ha-"))
    directory.chmod(0o755)
    processes = Processes(directory)
    synchronous = options.mode == "sync"
    cluster = Cluster(directory, processes, port=options.port, synchronous=synchronous)
    try:
        found = _run(options, cluster, processes)
    except (TimeoutError, RuntimeError) as error:
        say(f"the run came to nothing: {error}")
        return 2
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        cluster.kill_all()
        if options.keep:
            say(f"logs and data are in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return _report(found, options)


def _run(
    options: argparse.Namespace, cluster: Cluster, processes: Processes
) -> dict[str, counts.Values]:
    plan = PLANS[options.plan]
    say(f"starting the cluster in {cluster.directory}, replication {options.mode}")
    cluster.start()
    loads = [
        Load(name, cluster.dsn(name), cluster.direct_dsn(name), cluster.directory, processes)
        for name in DATABASES
    ]
    for load in loads:
        load.prepare()
        load.start_workers()
    time.sleep(5)
    for load in loads:
        load.start_producers()
    say(f"plan {options.plan}, {plan.seconds:.0f} s")
    struck = carry_out(plan, cluster)
    for load in loads:
        load.stop_producers()
    for load in loads:
        load.wait(_DRAIN_WITHIN)
    for load in loads:
        load.stop_workers()
    return {load.name: counts.count(load, struck) for load in loads}


def _report(found: dict[str, counts.Values], options: argparse.Namespace) -> int:
    names = list(found[DATABASES[0]])
    print(f"| plan {options.plan}, {options.mode} | {' | '.join(found)} |")
    print(f"| --- |{' --- |' * len(found)}")
    for name in names:
        print(f"| {name} | {' | '.join(f'{values[name]:,}' for values in found.values())} |")
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=2) + "\n")
    seconds = PLANS[options.plan].seconds
    for database, values in found.items():
        if few := counts.too_few(values, seconds):
            say(f"{database}: too few for a proof: {', '.join(few)}")
            return 2
    faults = {
        database: wrong
        for database, values in found.items()
        if (wrong := counts.wrong(values, synchronous=options.mode == "sync"))
    }
    for database, wrong in faults.items():
        say(f"{database}: must be zero and is not: {', '.join(wrong)}")
    say("FAILED" if faults else "passed")
    return 1 if faults else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/ha",
        description="Run Headway on a PostgreSQL cluster with failovers, and count what came of it.",
        epilog="Exit code 0: all is well. 1: a count that must be zero is not. 2: there was no run.",
    )
    parser.add_argument(
        "--mode",
        choices=("sync", "async"),
        default="sync",
        help="Patroni's synchronous_mode on or off (default: sync)",
    )
    parser.add_argument(
        "--plan",
        choices=tuple(PLANS),
        default="full",
        help="full: switchover, killed postmaster, frozen node, PgBouncer restarted (5 min); "
        "freeze: the frozen node alone (3 min); "
        "kill: the whole primary node while replication is held (3 min)",
    )
    parser.add_argument(
        "--port", type=int, default=5600, help="the first of 60 ports on 127.0.0.1 (default: 5600)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the counts there, too")
    parser.add_argument("--keep", action="store_true", help="leave logs and data behind")
    return parser.parse_args()


def _stopped(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _too_long(*_: object) -> NoReturn:
    raise TimeoutError(f"not over after {_LIMIT} s")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
