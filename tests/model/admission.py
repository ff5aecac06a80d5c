"""admit.sql and unadmit.sql on the model: which jobs get room under a key, and which give it back."""

from __future__ import annotations

from collections.abc import Iterable

from headway.core.state import State
from tests.model.controls import TURN
from tests.model.job import Job
from tests.model.model import Model


def unadmit(model: Model, keys: Iterable[str]) -> int:
    """A ready job that cannot run gives its room to the jobs of its key that can."""
    back = [
        job
        for job in model.all(State.READY)
        if job.line.key in keys and not job.line.ordered and _shut(model, job)
        if not model.controls.paused(("key", job.line.key), model.now)
        if _able(model, job.line.key)
    ]
    for job in back:
        job.state, job.holds = State.BLOCKED, False
    return len(back)


def admit(model: Model, keys: Iterable[str]) -> int:
    """Return how many were admitted."""
    return sum(_admit(model, key) for key in set(keys))


def _admit(model: Model, key: str) -> int:
    under = [job for job in model.jobs.values() if job.line.key == key]
    held = sum(job.holds for job in under)
    blocked = _able(model, key)
    if not blocked or model.controls.paused(("key", key), model.now):
        return 0
    limit, handler = blocked[0].line.limit or 0, blocked[0].handler
    ready = sum(job.state is State.READY for job in under)
    room = min(limit - held, TURN - ready)
    if limit == 0:
        room = model.controls.key_room(key, handler, held, ready, model.now)
    let_in = blocked[: max(0, room)]
    for job in let_in:
        job.state, job.holds, job.seq = State.READY, True, None
    return len(let_in)


def _shut(model: Model, job: Job) -> bool:
    return model.controls.shut(job.lane.queue, job.handler, model.now)


def _able(model: Model, key: str) -> list[Job]:
    """Return the jobs that wait under a key and could run, in order. An ordered line keeps its order."""
    line = [job for job in model.all(State.BLOCKED) if job.line.key == key]
    able = [job for job in line if job.line.ordered or not _shut(model, job)]
    return sorted(able, key=lambda job: job.place)
