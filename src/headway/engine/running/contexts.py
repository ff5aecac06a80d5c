"""Makes the context of an attempt, in a worker and in a child process."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from headway.core import codec
from headway.core.clock import Clock
from headway.core.context import Context, Note
from headway.core.definition import Definition
from headway.engine.running.outcomes import state_of
from headway.store.rows import Claim


def context_of(
    claim: Claim,
    definition: Definition,
    timeout: float | None,
    note: Note,
    clock: Clock,
    *,
    stopped: bool = False,
) -> Context:
    """Return the context of a claimed job. Raise InvalidInput if the state of its flow does not fit.

    `timeout` is in seconds from now. `note` is called with progress. `stopped` is true if the job was
    stopped before it began.
    """
    return Context(
        job_id=UUID(claim.id),
        task=claim.task,
        queue=claim.queue,
        attempt=claim.attempt,
        max_attempts=claim.max_attempts,
        headers={} if claim.headers is None else codec.decode(claim.headers),
        deadline=None if timeout is None else clock.read() + timedelta(seconds=timeout),
        _note=note,
        _stopped=stopped,
        step=claim.step,
        state=state_of(definition, claim.carried),
        _now=clock.read,
    )
