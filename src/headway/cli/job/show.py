"""`headway job show` and `job explain`: one job's whole story, and why it does not run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from headway.app import Headway
from headway.cli.options import as_json, database
from headway.cli.output import ago, clean, clean_name, coloured_state, console, print_json, table
from headway.core import codec
from headway.core.duration import in_words
from headway.core.failure import Envelope
from headway.errors import JobNotFound
from headway.handle import JobStatus
from headway.store import inspect
from headway.store.rows import AttemptRow, SuccessorRow

if TYPE_CHECKING:
    from rich.console import Console

_LINKS = {"dead-letter-of": "dead letter of", "failure-of": "called for"}
"""Headers that name another job, and what that means."""


@click.command
@click.argument("job_id", metavar="ID", type=click.UUID)
@as_json
@database
def explain(hw: Headway, job_id: UUID, as_json: bool) -> None:
    """Why a job does not run, or what became of it; the most certain reason first."""
    row, reasons = hw.session.client.run_all_sync([inspect.job(job_id), inspect.explain(job_id)])
    if row is None:
        raise JobNotFound(job_id)
    if as_json:
        print_json({"id": job_id, "state": row.state.label, "reasons": reasons})
        return
    for reason in reasons:
        click.echo(clean(reason))


@click.command
@click.argument("job_id", metavar="ID", type=click.UUID)
@as_json
@database
def show(hw: Headway, job_id: UUID, as_json: bool) -> None:
    """Everything about one job: input, result, error, its steps, every failed attempt, its links,
    why it does not run."""
    row, history, reasons, successors, server = hw.session.client.run_all_sync(
        [
            inspect.job(job_id),
            inspect.attempts(job_id),
            inspect.explain(job_id),
            inspect.successors(job_id),
            inspect.server(),
        ]
    )
    if row is None:
        raise JobNotFound(job_id)
    status = JobStatus.of(row)
    why: list[str] = [] if status.finished else reasons
    attempts = [attempt for attempt in history if attempt.error is not None]
    if as_json:
        fields = {name: getattr(status, name) for name in status.__slots__}
        links = {"history": history, "successors": successors}
        print_json({**fields, "attempts": attempts, **links, "why": why})
        return
    screen = console()
    _facts(screen, status, why, successors, server.now)
    if status.step:
        _history(screen, history, server.now)
    if status.error is not None:
        below = bool(attempts) and attempts[-1].error == status.error
        _error(screen, "error", status.error, trace=not below)
    for attempt in attempts:
        _error(screen, _about(attempt, server.now), attempt.error)


def _facts(
    screen: Console,
    job: JobStatus,
    why: Sequence[str],
    successors: Sequence[SuccessorRow],
    now: datetime,
) -> None:
    from rich.table import Table

    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("job", str(job.id))
    facts.add_row("task", clean_name(job.task))
    if job.step:
        facts.add_row("step", clean_name(job.step))
    facts.add_row("queue", f"{clean_name(job.queue)}, priority {job.priority}")
    facts.add_row("state", coloured_state(job.state))
    for reason in why:
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
    for words in _keys(job.keys or {}):
        facts.add_row("key", clean(words))
    for name, other in (job.headers or {}).items():
        if name in _LINKS:
            facts.add_row(_LINKS[name], f"job {clean(other)}")
    for made in successors:
        to = f"{clean_name(made.task)} in queue {clean_name(made.queue)}, {made.state}"
        facts.add_row("led to", f"job {made.id}: {to}")
    if job.headers:
        facts.add_row("headers", _shown(job.headers))
    facts.add_row("input", _shown(job.input))
    if job.carried is not None:
        facts.add_row("flow state", _shown(job.carried))
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


def _keys(keys: dict[str, Any]) -> list[str]:
    words: list[str] = []
    if key := keys.get("concurrency"):
        order = ", in order" if keys.get("ordered") else ""
        words.append(f"{key}: {keys.get('limit', 1)} at a time{order}")
    if key := keys.get("unique"):
        until = "until it is first claimed" if keys.get("until_claimed") else "until it has ended"
        words.append(f"{key}: unique {until}")
    return words


def _history(screen: Console, history: Sequence[AttemptRow], now: datetime) -> None:
    shown = table("step", "attempt>", "outcome", "took>", "when", "went to")
    for attempt in history:
        began, ended = attempt.started_at, attempt.finished_at
        shown.add_row(
            clean_name(attempt.step),
            str(attempt.attempt),
            attempt.outcome,
            "" if began is None else in_words(max(0, (ended - began).total_seconds())),
            ago(ended, now),
            clean_name(attempt.next_step or ""),
        )
    screen.print()
    screen.print(shown)


def _about(attempt: AttemptRow, now: datetime) -> str:
    worker = "" if attempt.worker is None else f", on worker {attempt.worker}"
    step = f" of {clean_name(attempt.step)}" if attempt.step else ""
    return f"attempt {attempt.attempt}{step} failed {ago(attempt.finished_at, now)}{worker}"


def _error(screen: Console, title: str, error: Envelope, *, trace: bool = True) -> None:
    from rich.text import Text

    screen.print()
    kind, words = error.get("type", "error"), error.get("message", "")
    screen.print(Text.assemble((title, "bold"), ": ", (clean(f"{kind}: {words}"), "red")))
    if trace and (frames := error.get("traceback")):
        screen.print(Text(clean(str(frames)).rstrip(), style="dim"), soft_wrap=True)


def _progress(progress: dict[str, Any]) -> str:
    words = clean(str(progress.get("message") or ""))
    return f"{progress.get('percent', 0):g} %" + (f", {words}" if words else "")


def _shown(value: Any) -> str:
    return clean(codec.encode_document(value))
