"""`headway health`: whether jobs can run, and what prevents it."""

from __future__ import annotations

from typing import Any

import click

from headway.app import Headway
from headway.cli.exits import FAILED, OK, UNREACHABLE, exit_code
from headway.cli.findings import examine, schema_is_wrong
from headway.cli.loading import is_open
from headway.cli.options import as_json, unopened_database
from headway.cli.output import clean, clean_name, console, print_json, table
from headway.cli.parsing import duration
from headway.core.clock import monotonic, wall
from headway.core.duration import optional_seconds
from headway.core.finding import Finding, skew
from headway.errors import HeadwayError, SchemaMismatch

_ANSWER_WITHIN = 15.0
"""Time limit in seconds for reading all figures."""
_COLOURS = {"ok": "green", "note": "yellow", "wrong": "bold red"}


@click.command
@click.option(
    "--max-wait",
    type=duration,
    metavar="DURATION",
    help="Report a problem if a ready job has waited longer than this in a queue that is not paused "
    "(default: health.max_wait of the configuration).",
)
@as_json
@unopened_database
def health(hw: Headway, max_wait: float | None, as_json: bool) -> None:
    """Check the database, the schema, the workers and the queues. Exit with 1 on a problem."""
    figures: dict[str, Any] = {}
    if max_wait is None:
        max_wait = optional_seconds(hw.settings.health.max_wait)
    try:
        findings = _look(hw, max_wait, figures)
    except SchemaMismatch as error:
        findings = schema_is_wrong(error, str(hw.place))
    except HeadwayError as error:
        if exit_code(error) != UNREACHABLE:
            raise
        place = f"{hw.place}: " if is_open(hw) else ""
        findings = [Finding("database", "wrong", f"{place}{error}")]
    code = _code(findings)
    if as_json:
        print_json({"ok": code == OK, "findings": findings, **figures})
    else:
        _print(findings)
    raise SystemExit(code)


def _look(hw: Headway, max_wait: float | None, figures: dict[str, Any]) -> list[Finding]:
    began = monotonic()
    hw.open_sync()
    hw.server_info_sync()  # opens a connection; the next one is measured
    acquired_in = monotonic() - began
    began, sent_at = monotonic(), wall()
    server = hw.server_info_sync()
    answered_in = monotonic() - began
    seen = hw.workers.overview_sync(_ANSWER_WITHIN)
    apart = skew(server.now, sent_at, answered_in)
    figures |= {
        "acquire_ms": round(acquired_in * 1000, 3),
        "ping_ms": round(answered_in * 1000, 3),
        "clock_difference_s": round(apart, 3),
        "database": hw.place,
        "server_version": server.version,
        "schema": hw.schema,
        "schema_version": hw.schema_version,
        "workers": seen.workers,
        "queues": seen.queues,
        "stranded": seen.unserved,
    }
    schema = f"{hw.schema}, version {hw.schema_version}"
    findings = examine(
        str(hw.place),
        server,
        acquired_in,
        answered_in,
        apart,
        schema,
        seen.queues,
        seen.workers,
        seen.unserved,
        seen.controls,
        max_wait,
    )
    return [*findings, *(Finding("locks", "note", words) for words in seen.lock_waits)]


def _code(findings: list[Finding]) -> int:
    wrong = [finding.about for finding in findings if finding.status == "wrong"]
    if not wrong:
        return OK
    return UNREACHABLE if "database" in wrong else FAILED


def _print(findings: list[Finding]) -> None:
    from rich.text import Text

    shown = table("status", "check!", "details")
    for finding in findings:
        status = Text(finding.status, style=_COLOURS[finding.status])
        shown.add_row(status, clean_name(finding.about), clean(finding.words))
    console().print(shown)
