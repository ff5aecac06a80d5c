"""`Schedule`: when jobs of a task are made, as declared in code. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any, get_args

from headway.core import cron
from headway.core.duration import Duration, seconds
from headway.core.firing import CatchUp, Overlap
from headway.core.moments import check_moment
from headway.core.names import check_name
from headway.errors import ConfigError

_LONGEST_NAME = 150
"""The name and the moment of an occurrence together are a unique key, which must fit its column."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When jobs of a task are made, and with which input: for `@hw.task(schedule=...)`.

    - `spec`: a cron expression of five or six fields, a name such as `@daily`, `@every 90s`, or a time.
      It may end with a zone in brackets; the default is UTC.
    - `catch_up`: what to do about occurrences that were missed while no worker ran. "skip" drops them,
      "one" makes one job for all of them, "all" makes jobs for the newest `max_catch_up`.
    - `overlap`: what to do while the previous job has not ended. "allow" makes another job, "skip"
      makes none, "queue" makes one that runs after it.
    - `jitter`: each job is delayed by up to this long.
    - `ends_at`: there are no occurrences after this moment.

    >>> Schedule("0 8 * * 1-5[Europe/Berlin]", input={"region": "eu"}, overlap="skip").catch_up
    'one'
    """

    spec: str
    _: KW_ONLY
    name: str | None = None
    input: Mapping[str, Any] | None = None
    catch_up: CatchUp = "one"
    max_catch_up: int = 100
    overlap: Overlap = "allow"
    jitter: Duration | None = None
    ends_at: datetime | None = None

    def __post_init__(self) -> None:
        cron.parse(self.spec)
        if self.name is not None:
            check_schedule_name(self.name)
        if self.input is not None and not isinstance(self.input, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"input {self.input!r} of schedule {self.spec!r} must map argument names to values"
            )
        _check_choice("catch_up", self.catch_up, get_args(CatchUp))
        _check_choice("overlap", self.overlap, get_args(Overlap))
        if type(self.max_catch_up) is not int or not 1 <= self.max_catch_up <= 10_000:
            raise ConfigError(
                f"max_catch_up {self.max_catch_up!r} must be a whole number from 1 to 10000"
            )
        if self.jitter is not None:
            seconds(self.jitter, name="jitter")
        if self.ends_at is not None:
            check_moment(self.ends_at, "ends_at")

    @property
    def last(self) -> datetime | None:
        """The last moment at which it can be due, or None if it never ends."""
        known = cron.parse(self.spec).last, self.ends_at
        return min((moment for moment in known if moment is not None), default=None)


Scheduled = str | Schedule | Sequence[str | Schedule]
"""The type of `schedule=`: a text, a `Schedule`, or several of them."""


def check_schedule_name(name: str) -> str:
    """Return a schedule's name. Raise ConfigError unless it is 1 to 150 printable characters."""
    if isinstance(name, str) and len(name) > _LONGEST_NAME:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(
            f"schedule name {name!r} has more than {_LONGEST_NAME} characters; pass a shorter name="
        )
    return check_name(name, "schedule name", _LONGEST_NAME)


def named(task: str, given: Scheduled | None) -> dict[str, Schedule]:
    """Return the schedules of a task by name.

    The first one without a name is named after the task, the others after the task and their spec.
    """
    schedules = list(_listed(task, given))
    for place, schedule in enumerate(schedules):
        if any(_same(schedule, other) for other in schedules[:place]):
            raise ConfigError(
                f"{task} has schedule {schedule.spec!r} twice with the same input; remove one"
            )
    found: dict[str, Schedule] = {}
    taken = {schedule.name for schedule in schedules if schedule.name is not None}
    for schedule in schedules:
        name = schedule.name or _free(task, schedule.spec, taken)
        taken.add(name)
        if name in found:
            raise ConfigError(f"{task} has two schedules named {name!r}; change one name=")
        found[check_schedule_name(name)] = schedule
    return found


def _listed(task: str, given: Scheduled | None) -> Iterable[Schedule]:
    if given is None:
        return
    several: Sequence[Any] = [given] if isinstance(given, str | Schedule) else given
    if not isinstance(several, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(
            f"schedule {given!r} of {task} must be a text, a Schedule, or a list of them"
        )
    for one in several:
        yield one if isinstance(one, Schedule) else Schedule(one)


def _free(task: str, spec: str, taken: set[str]) -> str:
    if task not in taken:
        return task
    name = first = f"{task}: {spec}"
    number = 1
    while name in taken:
        number += 1
        name = f"{first} {number}"
    return name


def _same(one: Schedule, other: Schedule) -> bool:
    return one.spec.split() == other.spec.split() and dict(one.input or {}) == dict(
        other.input or {}
    )


def _check_choice(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ConfigError(f"{name} {value!r} must be {', '.join(known[:-1])} or {known[-1]}")
