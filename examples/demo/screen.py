"""The screen of the demonstration."""

from __future__ import annotations

from figures import ENDS, Figures
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

console = Console(highlight=False)

_COLUMNS = {
    "ready": "cyan",
    "scheduled": "blue",
    "blocked": "magenta",
    "running": "yellow",
    "succeeded": "green",
    "failed": "red",
}


def bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        console=console,
    )


def note(figures: Figures) -> str:
    return (
        f"[green]{figures['succeeded']} done[/] · [yellow]{figures.retried} retried[/] · "
        f"[blue]{figures['scheduled']} for later[/] · [red]{figures['failed']} failed[/]"
    )


def by_task(figures: Figures) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("task")
    for state, colour in _COLUMNS.items():
        table.add_column(state, style=colour, justify="right")
    table.add_column("retried", style="yellow", justify="right")
    for task in sorted(figures.by_task):
        states = figures.by_task[task]
        cells = [str(states[state]) for state in _COLUMNS]
        table.add_row(task, *cells, str(figures.retried_by_task[task]))
    totals = [str(figures[state]) for state in _COLUMNS]
    table.add_section()
    table.add_row("all", *totals, str(figures.retried), style="bold")
    return table


def closing(
    figures: Figures,
    delayed: int,
    booked: tuple[int, int],
    seconds: float,
    burst: tuple[int, float],
) -> Table:
    table = Table(box=box.ROUNDED, title="How they ended", title_justify="left")
    table.add_column("")
    table.add_column("jobs", justify="right")
    table.add_row("enqueued", f"{figures.known}")
    table.add_row("of these for later", f"{delayed}")
    table.add_row("[green]succeeded[/]", f"{figures['succeeded']}")
    table.add_row("[yellow]retried on the way[/]", f"{figures.retried}")
    table.add_row("[red]failed for good, as they must[/]", f"{figures['failed']}")
    table.add_row("lost", f"{figures.known - sum(figures[state] for state in ENDS)}")
    table.add_row("orders of three steps, paid once each", f"{booked[0]} of {booked[1]}")
    table.add_section()
    table.add_row("jobs/s, their waiting included", f"{figures.ended / seconds:,.0f}")
    table.add_row(f"jobs/s, a burst of {burst[0]:,} small ones", f"{burst[1]:,.0f}")
    return table
