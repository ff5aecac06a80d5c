"""One picture for each workload: a row for each system, its rounds, their spread and their median."""

from __future__ import annotations

from pathlib import Path

from benchmarks import plot
from benchmarks.field.play import Reading
from benchmarks.field.report import Readings

_TITLES = {
    "enqueue": "Enqueue, one by one: jobs a second",
    "producers": "Enqueue, sixteen callers at once: jobs a second",
    "bulk": "Enqueue in bulk: jobs a second",
    "drain": "Drain, one process: jobs a second",
    "drain 2": "Drain, two processes: jobs a second",
    "pinned": "Drain, one process, while another session holds a snapshot: jobs a second",
    "backlog": "The first jobs of a backlog of a million, one process: jobs a second",
    "mixed": "Four callers enqueue while one process works: jobs a second",
    "flows": "Flows of five steps, one process: flows a second",
    "pick-up": "From before the enqueue to the start of the handler: milliseconds (shorter is better)",
}


def draw(folder: Path, machine: str, readings: Readings) -> None:
    """Write the pictures into a folder, the best system first."""
    folder.mkdir(parents=True, exist_ok=True)
    for workload, systems in readings.items():
        rows = {name: _row(runs) for name, runs in systems.items()}
        in_order = dict(sorted(rows.items(), key=lambda item: -item[1].medians[0]))
        if workload == "pick-up":
            in_order = dict(reversed(in_order.items()))
        if in_order:
            picture = plot.draw(plot.Run(machine, in_order), _TITLES[workload])
            (folder / f"{workload.replace(' ', '-')}.svg").write_text(picture)


def _row(runs: list[Reading]) -> plot.Row:
    row = plot.Row()
    for run in runs:
        row.add_round(run.p50_ms or run.rate or 0.0)
    return row
