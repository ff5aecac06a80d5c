"""Reports a run as one table and one JSON file: medians, spreads, and the ratio to bare SQL."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.field.play import Reading

Readings = Mapping[str, Mapping[str, list[Reading]]]
"""By workload, then by system."""

_YARDSTICKS = ("bare SQL", "bare SQL with NOTIFY")
"""The first of these that has the workload is what the others are compared with."""


def document(about: Mapping[str, Any], readings: Readings) -> dict[str, Any]:
    return {
        **about,
        "readings": {
            workload: {
                system: [reading.document() for reading in runs] for system, runs in systems.items()
            }
            for workload, systems in readings.items()
        },
    }


def save(path: Path, about: Mapping[str, Any], readings: Readings) -> None:
    path.write_text(json.dumps(document(about, readings), indent=1) + "\n")


def table(readings: Readings) -> str:
    """Return a Markdown table for each workload."""
    return "\n\n".join(_workload(name, systems) for name, systems in readings.items() if systems)


def _workload(name: str, systems: Mapping[str, list[Reading]]) -> str:
    if name == "pick-up":
        head = (
            f"### {name}\n\n| | p50 ms | spread | p99 ms | of bare p50 |\n"
            "| --- | --- | --- | --- | --- |"
        )
        return "\n".join([head, *(_delay(system, systems) for system in systems)])
    head = (
        f"### {name}\n\n| | jobs/s | spread | of bare | client / server CPU us | WAL B |\n"
        "| --- | --- | --- | --- | --- | --- |"
    )
    return "\n".join([head, *(_rate(system, systems) for system in systems)])


def _rate(system: str, systems: Mapping[str, list[Reading]]) -> str:
    runs = systems[system]
    rates = [run.rate or 0.0 for run in runs]
    client, server, wal = (
        statistics.median(getattr(run, name) or 0.0 for run in runs)
        for name in ("client_us", "server_us", "wal_bytes")
    )
    return (
        f"| {system} | {statistics.median(rates):,.0f} | {min(rates):,.0f} to {max(rates):,.0f} "
        f"| {_ratio(system, systems, 'rate')} | {client:,.0f} / {server:,.0f} | {wal:,.0f} |"
    )


def _delay(system: str, systems: Mapping[str, list[Reading]]) -> str:
    runs = systems[system]
    p50 = [run.p50_ms or 0.0 for run in runs]
    p99 = statistics.median(run.p99_ms or 0.0 for run in runs)
    return (
        f"| {system} | {statistics.median(p50):.1f} | {min(p50):.1f} to {max(p50):.1f} "
        f"| {p99:.1f} | {_ratio(system, systems, 'p50_ms')} |"
    )


def _ratio(system: str, systems: Mapping[str, list[Reading]], field: str) -> str:
    """Return the median and spread of the ratios to bare SQL, round by round."""
    yardstick = next((name for name in _YARDSTICKS if name in systems), None)
    if yardstick is None or system == yardstick:
        return ""
    pairs = zip(systems[system], systems[yardstick], strict=False)
    ratios = sorted(getattr(run, field) / getattr(other, field) for run, other in pairs)
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
