"""The counts: these must be true when everything has ended.

Each function is one promise. It returns what speaks against it, a line for each job or thing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from tests.soak.app import LAST_STEP, STEPS_WITH_EFFECT
from tests.soak.journal import Journal
from tests.soak.ledger import Ledger

Findings = Iterable[str]
_UNKEPT = "unkept"
_FREE = {"killer", "doomed"}
"""Tasks whose jobs end in a way of their own."""


@dataclass(slots=True)
class Ended:
    """A row of the archive."""

    id: UUID
    task: str
    queue: str
    step: str
    state: str
    n: int | None
    error: str | None
    created: float
    finished: float
    headers: dict[str, str]
    parent: str


@dataclass
class Evidence:
    """All that is to be compared."""

    db: psycopg.Connection[Any]
    ledger: Ledger
    journal: Journal
    logs: list[Path]
    server_log: Path

    def __post_init__(self) -> None:
        rows = self.db.execute(
            """select id, task, queue, step, label(state),
                      case when jsonb_typeof(coalesce(input->'n', input->'numbers')) = 'number'
                           then coalesce(input->'n', input->'numbers')::bigint end,
                      error->>'type', extract(epoch from created_at)::float8,
                      extract(epoch from finished_at)::float8, coalesce(headers, '{}'),
                      coalesce((input->>'parent') || ' ' || (input->>'step'), '')
               from archive"""
        )
        self.ended = [Ended(*row) for row in rows]
        self.by_id = {row.id: row for row in self.ended}
        self.crashed: dict[UUID, list[float]] = defaultdict(list)
        """When claims of a job were taken from a worker that was given up."""
        for job_id, at in self.db.execute(
            """select job_id, extract(epoch from finished_at)::float8 from attempt
               where error->>'type' = 'WorkerLost'"""
        ):
            self.crashed[job_id].append(at)


def nothing_is_left(evidence: Evidence) -> Findings:
    """Every job has ended; none is running that no worker runs."""
    rows = evidence.db.execute(
        """select j.id, task, step, label(state), worker_id, w.name, explain(j.id)
           from job j left join worker w on w.id = worker_id where not j.id = any (%s) order by j.id""",
        (list(evidence.ledger.unknown),),
    )
    for job_id, task, step, state, worker, name, why in rows:
        yield f"{job_id} {task} {step} is {state}, held by worker {worker} ({name}): {why}"


def none_lost(evidence: Evidence) -> Findings:
    """Every acknowledged job is in the archive."""
    live = {row[0] for row in evidence.db.execute("select id from job")}
    for job_id, task in evidence.ledger.made.items():
        if job_id not in evidence.by_id and job_id not in live:
            yield f"{job_id} {task} is lost"
    for job_id in evidence.ledger.unknown - live:
        yield f"{job_id} of an unknown task is gone"


def none_made_twice(evidence: Evidence) -> Findings:
    """Each call made at most one job, and each job is in the archive once."""
    for job_id, times in Counter(row.id for row in evidence.ended).items():
        if times > 1:
            yield f"{job_id} is in the archive {times} times"
    calls = Counter(row.n for row in evidence.ended if row.n is not None)
    poisoned = evidence.ledger.poisoned
    for n, times in calls.items():
        if times > 1 and not any(row.id in poisoned for row in evidence.ended if row.n == n):
            yield f"call {n} of {evidence.ledger.calls.get(n)} made {times} jobs"


def none_settled_twice(evidence: Evidence) -> Findings:
    """As many ends were counted as there are jobs that ended."""
    counted = Counter[tuple[str, str]]()
    for queue, outcome, count in evidence.db.execute(
        """select queue, label(outcome), sum(count)::int from
           (select queue, outcome, count from tally union all select queue, outcome, count from total) t
           group by 1, 2"""
    ):
        counted[queue, outcome] = count
    there = Counter((row.queue, row.state) for row in evidence.ended)
    for place in counted.keys() | there.keys():
        if place[0] != _UNKEPT and counted[place] != there[place]:
            yield f"{place}: {counted[place]} ends counted, {there[place]} jobs in the archive"
    ran = {int(run.key) for run in evidence.journal.runs if run.handler.startswith(_UNKEPT)}
    kept = sum(1 for row in evidence.ended if row.queue == _UNKEPT and row.n is not None)
    if counted[_UNKEPT, "succeeded"] + kept != len(ran):
        yield f"{counted[_UNKEPT, 'succeeded']} ends of {len(ran)} jobs that are not kept"
    for n in evidence.ledger.unkept - ran:
        yield f"call {n} of {evidence.ledger.calls[n]} never ran"


def effects_once(evidence: Evidence) -> Findings:
    """Each transactional success has its effect once, and nothing else has one."""
    found = Counter(evidence.db.execute("select job_id, step from effect").fetchall())
    wanted = Counter[tuple[UUID, str]](
        (row.id, "")
        for row in evidence.ended
        if row.task in ("pay", "pay_in_thread") and row.state == "succeeded"
    )
    for job_id, task, step in evidence.db.execute(
        "select job_id, task, step from attempt where error is null and step <> ''"
    ):
        if step in STEPS_WITH_EFFECT.get(task, ()):
            wanted[job_id, step] += 1
    payments = {run.job for run in evidence.journal.runs if run.handler == "unkept_payment"}
    for job_id in payments:
        wanted[job_id, ""] += 1
    for effect in found.keys() | wanted.keys():
        if found[effect] != wanted[effect] or found[effect] > 1:
            yield f"{effect}: {found[effect]} effects of {wanted[effect]} successes"


def children_once(evidence: Evidence) -> Findings:
    """Each step that was done has made its child, once."""
    found = Counter(row.parent for row in evidence.ended if row.task == "receipt")
    wanted = Counter[str]()
    for job_id, step in evidence.db.execute(
        """select job_id, step from attempt
           where error is null and task = 'order' and step in ('reserve', 'charge', 'ship')"""
    ):
        wanted[f"{job_id} {step}"] += 1
    for parent in found.keys() | wanted.keys():
        if found[parent] != wanted[parent]:
            yield f"{parent}: {found[parent]} children of {wanted[parent]} successes"


def ends_are_legal(evidence: Evidence) -> Findings:
    """Each job ended as it had to; nothing was cancelled that nobody asked to stop."""
    ledger = evidence.ledger
    for row in evidence.ended:
        error, asked = row.error, row.id in ledger.cancels
        match row.state:
            case "cancelled":
                legal = asked
            case "expired":
                legal = row.task == "hasty"
            case "succeeded":
                last = LAST_STEP.get(row.task, row.step)
                legal = row.task not in _FREE and row.id not in ledger.poisoned and row.step == last
            case _:
                legal = (
                    row.task in _FREE
                    or ledger.poisoned.get(row.id, "-") == error
                    or error == "WorkerLost"  # crashes_are_charged_to_the_guilty
                )
        if not legal:
            yield f"{row.id} {row.task} {row.step} ended as {row.state} ({error}), asked: {asked}"


def crashes_are_charged_to_the_guilty(evidence: Evidence) -> Findings:
    """Only jobs that end their process fail for that."""
    for row in evidence.ended:
        if row.state == "failed" and row.error == "WorkerLost" and row.task != "killer":
            yield f"{row.id} {row.task} failed for a crash of others"


def rolled_back_jobs_do_not_exist(evidence: Evidence) -> Findings:
    """A job that was made in a transaction is there if, and only if, that committed."""
    paid = {row[0] for row in evidence.db.execute("select id from paid")}
    for job_id in paid - evidence.by_id.keys():
        yield f"{job_id} was committed and is not there"
    for row in evidence.ended:
        if row.n in evidence.ledger.in_transaction and row.id not in paid:
            yield f"{row.id} was rolled back and is there"


def none_from_nowhere(evidence: Evidence) -> Findings:
    """Each job was made by a producer, a stranger, a step or a schedule."""
    for row in evidence.ended:
        made = row.id in evidence.ledger.made or row.task == "receipt" or "schedule" in row.headers
        # An enqueue that was not answered may have made a job all the same.
        if not made and row.n not in evidence.ledger.calls:
            yield f"{row.id} {row.task}: nobody made it"


def schedules_fired_once(evidence: Evidence) -> Findings:
    """Each occurrence made one job, and where all are made up for, none is missing."""
    fired: dict[str, list[str]] = {}
    for row in evidence.ended:
        if "schedule" in row.headers:
            fired.setdefault(row.headers["schedule"], []).append(row.headers["occurrence"])
    for name, occurrences in fired.items():
        for occurrence, times in Counter(occurrences).items():
            if times > 1:
                yield f"{name} at {occurrence}: {times} jobs"
    seconds = sorted({moment[:19] for moment in fired.get("second", ())})
    if seconds:
        row = evidence.db.execute(
            "select count(*) from generate_series(%s::timestamptz, %s::timestamptz, '1 s')",
            (seconds[0] + "Z", seconds[-1] + "Z"),
        ).fetchone()
        if row is not None and row[0] != len(seconds):
            yield f"second: {len(seconds)} jobs of {row[0]} occurrences"
    else:
        yield "second: it never fired"


def periods_hold(evidence: Evidence) -> Findings:
    """Of a key that is taken for a day there is one job."""
    users = Counter(run.key for run in evidence.journal.runs if run.handler == "daily")
    jobs = {(run.key, run.job) for run in evidence.journal.runs if run.handler == "daily"}
    for user in users:
        of_user = [job for key, job in jobs if key == user]
        if len(of_user) > 1:
            yield f"daily {user}: {of_user}"


def nothing_was_wrong(evidence: Evidence) -> Findings:
    """Nothing was seen to be wrong while it ran."""
    return evidence.ledger.wrong


CHECKS: dict[str, Callable[[Evidence], Findings]] = {
    "left": nothing_is_left,
    "lost": none_lost,
    "twice": none_made_twice,
    "settled": none_settled_twice,
    "effects": effects_once,
    "children": children_once,
    "ends": ends_are_legal,
    "crashes": crashes_are_charged_to_the_guilty,
    "rollbacks": rolled_back_jobs_do_not_exist,
    "nowhere": none_from_nowhere,
    "schedules": schedules_fired_once,
    "periods": periods_hold,
    "seen": nothing_was_wrong,
}
