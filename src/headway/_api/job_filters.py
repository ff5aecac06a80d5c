"""Checks on what callers ask of jobs: ids, states and filters. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import get_args
from uuid import UUID

from headway.core.info import JobState
from headway.core.state import State
from headway.errors import ConfigError

States = JobState | Sequence[JobState]
"""One state or several."""

_MOST = 100_000


def job_id_of(job_id: UUID | str) -> UUID:
    """Return an id as a UUID. Raise ConfigError if it is not one."""
    try:
        return UUID(str(job_id))
    except ValueError:
        raise ConfigError(f"{job_id!r} is not a job id; ids are UUIDs") from None


def job_ids_of(job_ids: Iterable[UUID | str]) -> list[UUID]:
    """Return ids as UUIDs. Raise ConfigError if one is not, or if it is one id instead of several."""
    if isinstance(job_ids, str | UUID):
        raise ConfigError(f"{str(job_ids)!r} is one id; give a list: [{str(job_ids)!r}]")
    return [job_id_of(job_id) for job_id in job_ids]


def states_of(state: States | None) -> list[State] | None:
    """Return the states of this name, or of these. Raise ConfigError if one does not exist."""
    if state is None:
        return None
    wanted = [state] if isinstance(state, str) else list(state)
    for label in wanted:
        if label not in get_args(JobState):
            known = ", ".join(get_args(JobState))
            raise ConfigError(f"state {label!r} does not exist; the states are {known}")
    return [State.of_label(label) for label in wanted]


def text_of(value: str | None, name: str) -> str | None:
    """Return a filter by name. Raise ConfigError if it is not text."""
    if not isinstance(value, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"{name} {value!r} must be text")
    return value


def check_limit(limit: int, most: int = _MOST) -> None:
    """Raise ConfigError if this cannot be a number of jobs to read."""
    if type(limit) is not int or not 1 <= limit <= most:
        raise ConfigError(f"limit {limit!r} must be a whole number from 1 to {most}")
