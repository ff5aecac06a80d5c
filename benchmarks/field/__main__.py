"""`python -m benchmarks.field`: every system, every workload, in interleaved rounds."""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.field import plots, report
from benchmarks.field.environments import NotHere, prepare
from benchmarks.field.ground import Ground, redis_server
from benchmarks.field.play import Player, Reading, Sizes
from benchmarks.field.systems import SYSTEMS, System
from benchmarks.measure import machine, server

WORKLOADS = (
    "enqueue",
    "producers",
    "bulk",
    "drain",
    "drain 2",
    "pinned",
    "backlog",
    "mixed",
    "flows",
    "pick-up",
)


def main() -> None:
    options = _options()
    about: dict[str, object] = {
        "date": datetime.now(UTC).date().isoformat(),
        "rounds": options.rounds,
    }
    readings: dict[str, dict[str, list[Reading]]] = {
        workload: defaultdict(list) for workload in options.workloads
    }
    sizes = Sizes.quick() if options.quick else Sizes()
    with (
        tempfile.TemporaryDirectory() as folder,
        server(options.dsn, Path(folder)) as dsn,
        redis_server() as redis,
    ):
        about["machine"] = machine(dsn)
        print(about["machine"], flush=True)
        ground = Ground(dsn, redis)
        players, skipped, versions = _players(options.systems, ground)
        about["skipped"], about["versions"] = skipped, versions
        about["configurations"] = {
            system.name: system.configuration for system in SYSTEMS if system.name in players
        }
        for number in range(options.rounds):
            for workload in options.workloads:
                for name in list(players) if number % 2 == 0 else reversed(list(players)):
                    _play(players[name], name, workload, sizes, readings[workload])
                report.save(options.out, about, readings)
    for name, reason in skipped.items():
        print(f"{name} was not measured: {reason}")
    print(report.table(readings))
    if options.plots is not None:
        plots.draw(options.plots, str(about["machine"]), readings)


def _players(
    wanted: list[str], ground: Ground
) -> tuple[dict[str, tuple[System, Player]], dict[str, str], dict[str, dict[str, str]]]:
    players: dict[str, tuple[System, Player]] = {}
    skipped: dict[str, str] = {}
    versions: dict[str, dict[str, str]] = {}
    for system in SYSTEMS:
        if wanted and system.name not in wanted:
            continue
        print(f"  preparing {system.name}", flush=True)
        try:
            if system.redis and ground.redis is None:
                raise NotHere("redis-server is not installed")
            environment = prepare(system)
            players[system.name] = system, Player(system, environment, ground)
            versions[system.name] = environment.versions
        except Exception as error:
            skipped[system.name] = f"{type(error).__name__}: {error}"
            print(f"  {system.name} is left out: {skipped[system.name]}", flush=True)
    return players, skipped, versions


def _play(
    found: tuple[System, Player],
    name: str,
    workload: str,
    sizes: Sizes,
    into: dict[str, list[Reading]],
) -> None:
    system, player = found
    if not system.does(workload):
        return
    try:
        reading = player.play(workload, sizes)
    except Exception as error:
        print(f"  {workload:10} {name:20} failed: {type(error).__name__}: {error}", flush=True)
        return
    into[name].append(reading)
    said = f"{reading.rate:12,.0f} jobs/s" if reading.rate else f"{reading.p50_ms:12.2f} ms"
    print(f"  {workload:10} {name:20} {said}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/run", description=__doc__)
    parser.add_argument("--systems", type=_names, default=[], help="names, separated by commas")
    parser.add_argument("--workloads", type=_names, default=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small numbers: does everything run?")
    parser.add_argument("--dsn", help="a server on this machine, else an embedded one")
    parser.add_argument("--out", type=Path, default=Path("field.json"))
    parser.add_argument("--plots", type=Path, help="a folder for one SVG per workload")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


if __name__ == "__main__":
    main()
