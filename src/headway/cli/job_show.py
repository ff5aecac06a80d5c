"""`headway job show`: one job's whole story."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from headway.app import Headway
from headway.cli.options import as_json, database
from headway.cli.output import ago, clean, coloured_state, console, print_json
from headway.cli.why import why
from headway.core import codec
from headway.core.duration import in_words
from headway.core.failure import Envelope
from headway.errors import JobNotFound
from headway.handle import JobStatus
from headway.store import inspect
from headway.store.rows import AttemptRow

if TYPE_CHECKING:
    from rich.console import Console


@click.command
@click.argument("job_id", metavar="ID", type=click.UUID)
@as_json
@database
def show(hw: Headway, job_id: UUID, as_json: bool) -> None:
    """Everything about one job: input, result, error, every failed attempt, why it does not run."""
    now = hw.session.clock.now()
    row, attempts, queues, workers, server = hw.session.client.run_all_sync(
        [
            inspect.job(job_id),
            inspect.attempts(job_id),
            inspect.queues(now),
            inspect.workers(now),
            inspect.server(),
        ]
    )
    if row is None:
        raise JobNotFound(job_id)
    status, reasons = JobStatus.of(row), why(row, queues, workers, server.now)
    if as_json:
        fields = {name: getattr(status, name) for name in status.__slots__}
        print_json({**fields, "attempts": attempts, "why": reasons})
        return
    screen = console()
    _facts(screen, status, reasons, server.now)
    if status.error is not None:
        _error(screen, "error", status.error)
    for attempt in attempts:
        _error(screen, _about(attempt, server.now), attempt.error)


def _facts(screen: Console, job: JobStatus, reasons: list[str], now: datetime) -> None:
    from rich.table import Table

    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("job", str(job.id))
    facts.add_row("task", job.task)
    facts.add_row("queue", f"{job.queue}, priority {job.priority}")
    facts.add_row("state", coloured_state(job.state))
    for reason in reasons:
        facts.add_row("why", clean(reason))
    facts.add_row("attempt", f"{job.attempt} of {job.max_attempts}")
    for name, moment in _moments(job):
        if moment is not None:
            facts.add_row(name, f"{ago(moment, now)} ({moment.isoformat(timespec='milliseconds')})")
    if job.started_at and job.finished_at:
        facts.add_row("took", in_words((job.finished_at - job.started_at).total_seconds()))
    if job.worker is not None:
        facts.add_row("worker", str(job.worker))
    if job.progress is not None:
        facts.add_row("progress", _progress(job.progress))
    if job.headers:
        facts.add_row("headers", _shown(job.headers))
    facts.add_row("input", _shown(job.input))
    if job.state == "succeeded":
        facts.add_row("result", _shown(job.result))
    screen.print(facts)


def _moments(job: JobStatus) -> list[tuple[str, datetime | None]]:
    return [
        ("made", job.created_at),
        ("due", None if job.finished else job.run_at),
        ("started", job.started_at),
        ("finished", job.finished_at),
        ("expires", None if job.finished else job.expires_at),
    ]


def _about(attempt: AttemptRow, now: datetime) -> str:
    worker = "" if attempt.worker is None else f", on worker {attempt.worker}"
    return f"attempt {attempt.attempt} failed {ago(attempt.finished_at, now)}{worker}"


def _error(screen: Console, title: str, error: Envelope) -> None:
    from rich.text import Text

    screen.print()
    kind, words = error.get("type", "error"), error.get("message", "")
    screen.print(Text.assemble((title, "bold"), ": ", (clean(f"{kind}: {words}"), "red")))
    if trace := error.get("traceback"):
        screen.print(Text(clean(str(trace)).rstrip(), style="dim"), soft_wrap=True)


def _progress(progress: dict[str, Any]) -> str:
    words = clean(str(progress.get("message") or ""))
    return f"{progress.get('percent', 0):g} %" + (f", {words}" if words else "")


def _shown(value: Any) -> str:
    return clean(codec.encode_document(value))
