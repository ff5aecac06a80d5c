"""`headway health`: whether jobs can run, and what is in their way."""

from __future__ import annotations

from typing import Any

import click

from headway.app import Headway
from headway.cli.checkup import examine, schema_is_wrong
from headway.cli.exits import DOES_NOT_HOLD, OK, UNREACHABLE, exit_code
from headway.cli.options import as_json, database, duration
from headway.cli.output import clean, clean_name, console, print_json
from headway.core.clock import monotonic, wall
from headway.core.duration import optional_seconds
from headway.core.finding import Finding
from headway.engine.health.probe import skew
from headway.errors import HeadwayError, SchemaMismatch
from headway.store import blockers, controls, inspect, migrate
from headway.store.statement import Statement

_ANSWER_WITHIN = 15.0
"""Seconds for all figures, however long the queues are."""
_COLOURS = {"ok": "green", "note": "yellow", "wrong": "bold red"}


@click.command
@click.option(
    "--max-wait",
    type=duration,
    metavar="DURATION",
    help="Unhealthy if a ready job of a queue that is not paused has waited longer "
    "(default: health.max_wait of the configuration).",
)
@as_json
@database
def health(hw: Headway, max_wait: float | None, as_json: bool) -> None:
    """Look at the database, the schema, the workers and the queues; exit 1 if something is wrong."""
    figures: dict[str, Any] = {}
    if max_wait is None:
        max_wait = optional_seconds(hw.settings.health.max_wait)
    try:
        findings = _look(hw, max_wait, figures)
    except SchemaMismatch as error:
        findings = schema_is_wrong(error, hw.session.place)
    except HeadwayError as error:
        if exit_code(error) != UNREACHABLE:
            raise
        place = f"{hw.session.place}: " if "target" in vars(hw.session) else ""
        findings = [Finding("database", "wrong", f"{place}{error}")]
    code = _code(findings)
    if as_json:
        print_json({"ok": code == OK, "findings": findings, **figures})
    else:
        _print(findings)
    raise SystemExit(code)


def _look(hw: Headway, max_wait: float | None, figures: dict[str, Any]) -> list[Finding]:
    client, now = hw.session.client, hw.session.clock.now()
    began = monotonic()
    client.open_sync()
    client.run_sync(inspect.server())  # the first trip opens a connection, the second is measured
    acquired_in = monotonic() - began
    began, sent_at = monotonic(), wall()
    server = client.run_sync(inspect.server())
    answered_in = monotonic() - began
    questions: list[Statement[Any]] = [
        inspect.queues(now),
        inspect.workers(now),
        inspect.stranded(now),
        controls.read(now),
        blockers.waits(now),
    ]
    until = monotonic() + _ANSWER_WITHIN
    queues, workers, stranded, said, waits = client.run_all_sync(questions, until=until)
    apart = skew(server.now, sent_at, answered_in)
    figures |= {
        "acquire_ms": round(acquired_in * 1000, 3),
        "ping_ms": round(answered_in * 1000, 3),
        "clock_difference_s": round(apart, 3),
        "database": hw.session.place,
        "server_version": server.version,
        "schema": hw.session.schema,
        "schema_version": migrate.newest(),
        "workers": workers,
        "queues": queues,
        "stranded": stranded,
    }
    schema = f"{hw.session.schema}, version {migrate.newest()}"
    findings = examine(
        hw.session.place,
        server,
        acquired_in,
        answered_in,
        apart,
        schema,
        queues,
        workers,
        stranded,
        said,
        max_wait,
    )
    return [*findings, *(Finding("locks", "note", wait.words()) for wait in waits)]


def _code(findings: list[Finding]) -> int:
    wrong = [finding.about for finding in findings if finding.status == "wrong"]
    if not wrong:
        return OK
    return UNREACHABLE if "database" in wrong else DOES_NOT_HOLD


def _print(findings: list[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    shown = Table.grid(padding=(0, 2))
    for finding in findings:
        status = Text(finding.status, style=_COLOURS[finding.status])
        shown.add_row(status, clean_name(finding.about), clean(finding.words))
    console().print(shown)
