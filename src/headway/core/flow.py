"""The next step of a flow, and the change that it makes to the job. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.core.definition import Definition
from headway.core.duration import optional_seconds
from headway.core.limits import BY_LIMIT
from headway.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Next:
    """The next step of a job. `step.next(...)` and `step.after(delay, ...)` return it."""

    step: Definition
    arguments: Mapping[str, Any]
    delay: float | None = None


@dataclass(slots=True)
class Advance:
    """The move of a job to a step, as the settler writes it."""

    step: str
    input: bytes
    delay: float
    queue: str
    priority: int
    max_attempts: int
    key: str | None
    key_limit: int | None
    ordered: bool


def following(definition: Definition, returned: Any) -> Next | None:
    """Return the step after one that returned this value, or None if the flow ends."""
    if isinstance(returned, Next):
        return returned
    if (step := definition.following) is None:
        return None
    return Next(step, step.bind((returned,), {}))


def advance(here: Definition, to: Next, options: Mapping[str, Any]) -> Advance:
    """Return the move from one step to another. `options` come from the call that made the job."""
    step = to.step
    if step.flow is None or step.flow is not here.flow:
        raise InvalidInput(
            f"{here.handler} returned {step.handler}, which is not a step of its flow; "
            "enqueue another job instead"
        )
    key, limit, ordered = options.get("key") or (None, None, False)
    if "concurrency_key" in step.own:
        key = step.key_of(step.key, to.arguments)
        limit, ordered = (step.key.limit, step.key.ordered) if step.key and key else (None, False)
    if (limited := step.limit_key_of(to.arguments)) is not None:
        key, limit, ordered = limited, BY_LIMIT, False
    return Advance(
        step=step.step,
        input=step.encode(to.arguments),
        delay=(optional_seconds(step.delay) or 0.0) if to.delay is None else to.delay,
        queue=_chosen("queue", step, options),
        priority=_chosen("priority", step, options),
        max_attempts=step.retry.max_attempts
        if "retry" in step.own
        else options.get("max_attempts", step.retry.max_attempts),
        key=key,
        key_limit=limit,
        ordered=ordered,
    )


def _chosen(option: str, step: Definition, options: Mapping[str, Any]) -> Any:
    """Return the step's own option, else the call's, else the flow's."""
    if option in step.own:
        return getattr(step, option)
    return options.get(option, getattr(step, option))
