"""The counts of how workers behaved: their ends, their pulses and leases, their logs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.soak.counts import Evidence, Findings

_SLOWEST_PULSE = 10.0
"""Far above what a pulse takes, far below the time for which strangers hold what they hold."""


def workers_end_for_a_reason(evidence: Evidence) -> Findings:
    """A worker ends when it is killed, told to, or cannot reach the database at its start."""
    for pid, code, reason, _ in evidence.ledger.exits:
        if not reason and pid not in evidence.journal.killers and code != 3:
            yield f"worker {pid} ended with {code}, and nobody had ended it"
        if reason == "deploy" and code not in (0, -9, -15) and pid not in evidence.journal.killers:
            yield f"worker {pid} was drained and ended with {code}"


def calm_pulses(evidence: Evidence) -> Findings:
    """While nothing is broken every worker makes progress, whatever strangers do."""
    for row in evidence.ended:
        if row.task != "pulse" or row.finished - row.created <= _SLOWEST_PULSE:
            continue
        if row.id in evidence.crashed:
            continue  # held by a worker that was killed before, for as long as its lease
        for since, until in evidence.ledger.calm:
            waited = min(until, row.finished) - max(since, row.created)
            if waited > _SLOWEST_PULSE:
                yield f"{row.id} of {row.queue} waited for {waited:.1f} s while it was calm"


def calm_leases(evidence: Evidence) -> Findings:
    """While nothing is broken no worker loses its lease, whatever strangers do."""
    for name, at in evidence.db.execute(
        """select name, extract(epoch from started_at)::float8 from worker w
           where exists (select 1 from worker b where b.name = w.name and b.id < w.id)"""
    ):
        if any(since < at < until for since, until in evidence.ledger.calm):
            yield f"worker {name} lost its lease, stopped its handlers and registered again at {at:.1f}"


_TRACE = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(.*)\n")


_DEADLOCK = re.compile(r"deadlock detected\n.*DETAIL: .*\n((?:\t.*\n)+)")


def logs_are_clean(evidence: Evidence) -> Findings:
    """No worker logs a traceback of Headway itself, and no two statements wait for each other."""
    for log in evidence.logs:
        text = log.read_text(errors="replace")
        for trace in _TRACE.finditer(text):
            frames = re.findall(r'^  File "([^"]+)"', trace[0], re.MULTILINE)
            if frames and not frames[-1].endswith("tests/soak/app.py"):
                yield f"{log.name}: {trace[1][:200]} (at {Path(frames[-1]).name})"
    for deadlock in _DEADLOCK.finditer(evidence.server_log.read_text(errors="replace")):
        said = [
            " ".join(line.split())[:70] for line in deadlock[1].splitlines() if "waits" not in line
        ]
        yield f"a deadlock: {' | '.join(said)}"


CHECKS: dict[str, Callable[[Evidence], Findings]] = {
    "exits": workers_end_for_a_reason,
    "calm": calm_pulses,
    "leases": calm_leases,
    "logs": logs_are_clean,
}
