"""`headway job show` and `job explain`: everything about one job, and why it is not running."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
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
from headway.core.info import Attempt, JobGroup, JobStatus, Successor
from headway.group import MEMBER_OF

if TYPE_CHECKING:
    from rich.console import Console

_LINKS = {
    "dead-letter-of": "dead letter of",
    "failure-of": "failure handler of",
    MEMBER_OF: "in the group of",
}
"""Headers that name another job, with their labels."""


@click.command
@click.argument("job_id", metavar="ID", type=click.UUID)
@as_json
@database
def explain(hw: Headway, job_id: UUID, as_json: bool) -> None:
    """Explain why a job is not running, or how it ended. The most certain reason comes first."""
    status, reasons = hw.jobs.get_sync(job_id), hw.jobs.explain_sync(job_id)
    if as_json:
        print_json({"id": job_id, "state": status.state, "reasons": reasons})
        return
    for reason in reasons:
        click.echo(clean(reason))


@click.command
@click.argument("job_id", metavar="ID", type=click.UUID)
@as_json
@database
def show(hw: Headway, job_id: UUID, as_json: bool) -> None:
    """Show everything about one job.

    That is its input, result, error, steps, failed attempts and related jobs, and why it is not
    running.
    """
    job = hw.job(job_id)
    status, history = job.status_sync(), job.history_sync()
    successors, now = hw.jobs.successors_sync(job_id), hw.server_info_sync().now
    group = job.group_sync()
    why: list[str] = [] if status.finished else job.explain_sync()
    attempts = [attempt for attempt in history if attempt.error is not None]
    if as_json:
        known = {field.name: getattr(status, field.name) for field in fields(status)}
        links = {"history": history, "successors": successors, "group": group}
        print_json({**known, "attempts": attempts, **links, "why": why})
        return
    screen = console()
    _facts(screen, status, why, group, successors, now)
    if status.step:
        _history(screen, history, now)
    if status.error is not None:
        below = bool(attempts) and attempts[-1].error == status.error
        _error(screen, "error", status.error, trace=not below)
    for attempt in attempts:
        _error(screen, _about(attempt, now), attempt.error or {})


def _facts(
    screen: Console,
    job: JobStatus,
    why: Sequence[str],
    group: JobGroup | None,
    successors: Sequence[Successor],
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
    if group is not None:
        facts.add_row("group", _group(group))
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


def _group(group: JobGroup) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in sorted(group.states.items()))
    some = f", runs at {group.size - group.all_but}" if group.all_but else ""
    return f"{group.ended} of {group.size} have ended{some}" + (f": {counts}" if counts else "")


def _moments(job: JobStatus) -> list[tuple[str, datetime | None]]:
    return [
        ("created", job.created_at),
        ("due", None if job.finished else job.run_at),
        ("started", job.started_at),
        ("finished", job.finished_at),
        ("expires", None if job.finished else job.expires_at),
    ]


def _keys(keys: dict[str, Any]) -> list[str]:
    words: list[str] = []
    if key := keys.get("concurrency"):
        order = ", in order" if keys.get("ordered") else ""
        limit = f": {keys['limit']} at a time" if "limit" in keys else ""
        words.append(f"{key}{limit}{order}")
    if key := keys.get("unique"):
        until = (
            "until a worker claims the job" if keys.get("until_claimed") else "until the job ends"
        )
        words.append(f"{key}: unique {until}")
    return words


def _history(screen: Console, history: Sequence[Attempt], now: datetime) -> None:
    shown = table("step", "attempt>", "outcome", "took>", "ended", "next step")
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


def _about(attempt: Attempt, now: datetime) -> str:
    worker = "" if attempt.worker is None else f", on worker {attempt.worker}"
    step = f" of step {clean_name(attempt.step)}" if attempt.step else ""
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
