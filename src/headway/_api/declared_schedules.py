"""Schedules as code says them, and as they travel: with the document of the jobs they make."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headway._api.new_job import new_job
from headway.core import codec
from headway.core.duration import optional_seconds
from headway.core.keys import Key, Unique
from headway.core.names import check_name
from headway.core.schedule import Schedule, Scheduled, named
from headway.errors import ConfigError, InvalidInput
from headway.flow import Flow
from headway.store.statements.schedules import Put
from headway.task import BoundTask

Target = BoundTask[..., Any] | Flow[Any]
"""The target of a schedule: a task, a flow, or one of them with options (`task.using(...)`)."""


class DeclaredSchedules:
    """The schedules that the code of one app declares."""

    def __init__(self) -> None:
        self._declared: dict[str, tuple[Target, Schedule]] = {}

    def add(self, task: Target, name: str, given: Scheduled | None) -> None:
        """Those of the task of this name; ConfigError if one cannot be right."""
        found = named(name, given)
        for schedule in found:
            if schedule in self._declared:
                raise ConfigError(
                    f"there is a schedule {schedule!r} already; give that of {name} another name="
                )
        self._declared |= {schedule: (task, found[schedule]) for schedule in found}

    def puts(self, most_bytes: int) -> list[Put]:
        """To be written down by a worker; InvalidInput if an input does not fit its task."""
        return [
            as_put(name, schedule, task, most_bytes)
            for name, (task, schedule) in self._declared.items()
        ]


def as_put(name: str, schedule: Schedule, task: Target, most_bytes: int) -> Put:
    """A schedule as it travels, with the document of its jobs."""
    bound = task.using() if isinstance(task, Flow) else task
    options, definition = bound.options, bound.definition
    if options.delay is not None or options.at is not None or options.conn is not None:
        raise ConfigError(
            f"schedule {name!r} says when; leave delay, at and conn out of using() of {definition.name}"
        )
    if schedule.overlap == "skip":
        if options.unique is not None or definition.unique is not None:
            raise ConfigError(
                f"schedule {name!r}: {definition.name} has a unique key of its own; leave out "
                'overlap="skip", which is one'
            )
        options = replace(options, unique=Unique(name))
    queued = queue_key(name) if schedule.overlap == "queue" else None
    if queued is not None:
        keyed = options.concurrency_key or definition.key
        if definition.flow is not None:
            keyed = keyed or definition.flow.key
        options = replace(options, concurrency_key=keyed or Key(queued, ordered=True))
    try:
        job = new_job(definition, options, (), schedule.input or {}, most_bytes)
    except InvalidInput as error:
        raise InvalidInput(f"schedule {name!r}: {error}") from error
    if queued is not None and job.key != queued:
        raise ConfigError(
            f"schedule {name!r}: {definition.name} has a concurrency key of its own; leave out "
            'overlap="queue", which is one'
        )
    if job.on_taken == "reject":
        job.on_taken = "skip"  # no caller waits for an answer
    return put_of(name, schedule, definition.name, job=job)


def as_put_by_name(
    name: str, schedule: Schedule, task: str, most_bytes: int, *, no_keys: bool
) -> Put:
    """Return a schedule of a task whose code is not at hand. SQL makes the document of its jobs."""
    arguments = dict(schedule.input or {})
    codec.check_size(codec.encode(arguments), most_bytes, "the input")
    call: dict[str, Any] = {"task": task, "input": arguments, "no_keys": no_keys}
    if schedule.overlap == "skip":
        call["unique_key"] = name
    if schedule.overlap == "queue":
        call |= {"concurrency_key": queue_key(name), "ordered": True}
    return put_of(name, schedule, check_name(task, "task name"), call=call)


def put_of(name: str, schedule: Schedule, task: str, *, job: Any = None, call: Any = None) -> Put:
    """A schedule as it travels: with the document of its jobs, or a call that one is to be made of."""
    return Put(
        name=name,
        task=task,
        spec=schedule.spec,
        job=job,
        call=call,
        catch_up=schedule.catch_up,
        most=schedule.max_catch_up,
        overlap=schedule.overlap,
        jitter=optional_seconds(schedule.jitter) or 0.0,
        ends_at=schedule.ends_at,
        last=schedule.last,
    )


def queue_key(name: str) -> str:
    """The concurrency key behind which jobs of a schedule queue: with overlap="queue"."""
    return f"schedule {name}"
