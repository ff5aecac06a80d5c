"""What is to be made again and again, as code says it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args

from headway.core import cron
from headway.core.duration import Duration, seconds
from headway.core.firing import CatchUp, Overlap
from headway.core.moments import check_moment
from headway.core.names import check_name
from headway.errors import ConfigError

_LONGEST_NAME = 150
"""A name and the moment of an occurrence are a unique key together."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When jobs of a task are made, and with what input: for `@hw.task(schedule=...)`.

    `spec` is a cron expression of five or six fields, `@daily` and its kin, `@every 90s` or a time,
    with a zone in brackets (UTC if there is none). `catch_up` says what becomes of occurrences that
    were missed while no worker was there: "skip" them, "one" for all of them, or "all", the newest
    `most`. `overlap` says what happens while the job before has not ended: "allow" another, "skip" it,
    or "queue" it behind. `jitter` spreads jobs over so long; there is none after `ends`.

    >>> Schedule("0 8 * * 1-5[Europe/Berlin]", input={"region": "eu"}, overlap="skip").catch_up
    'one'
    """

    spec: str
    name: str | None = None
    input: Mapping[str, Any] | None = None
    catch_up: CatchUp = "one"
    most: int = 100
    overlap: Overlap = "allow"
    jitter: Duration | None = None
    ends: datetime | None = None

    def __post_init__(self) -> None:
        cron.parse(self.spec)
        if self.name is not None:
            check_schedule_name(self.name)
        if self.input is not None and not isinstance(self.input, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"input {self.input!r} of schedule {self.spec!r} must be a mapping of arguments by name"
            )
        _check_choice("catch_up", self.catch_up, get_args(CatchUp))
        _check_choice("overlap", self.overlap, get_args(Overlap))
        if type(self.most) is not int or not 1 <= self.most <= 10_000:
            raise ConfigError(f"most {self.most!r} must be a whole number from 1 to 10000")
        if self.jitter is not None:
            seconds(self.jitter, name="jitter")
        if self.ends is not None:
            check_moment(self.ends, "ends")

    @property
    def last(self) -> datetime | None:
        """When it cannot be due any more; none if it goes on for ever."""
        known = [moment for moment in (cron.parse(self.spec).last, self.ends) if moment is not None]
        return min(known, default=None)


Scheduled = str | Schedule | Sequence[str | Schedule]
"""What `schedule=` takes: a text, a `Schedule`, or several."""


def check_schedule_name(name: str) -> str:
    """A schedule's name: any printable text of up to 150 characters."""
    if isinstance(name, str) and len(name) > _LONGEST_NAME:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(
            f"schedule name {name!r} has over {_LONGEST_NAME} characters; give it a shorter name="
        )
    return check_name(name, "schedule name", _LONGEST_NAME)


def named(task: str, given: Scheduled | None) -> dict[str, Schedule]:
    """The schedules of a task by name. The first that has no name is called like the task; others by
    task and spec."""
    schedules = list(_listed(task, given))
    for place, schedule in enumerate(schedules):
        if any(_same(schedule, other) for other in schedules[:place]):
            raise ConfigError(
                f"{task} has schedule {schedule.spec!r} twice with the same input; leave one out"
            )
    found: dict[str, Schedule] = {}
    taken = {schedule.name for schedule in schedules if schedule.name is not None}
    for schedule in schedules:
        name = schedule.name or _free(task, schedule.spec, taken)
        taken.add(name)
        if name in found:
            raise ConfigError(f"{task} has two schedules named {name!r}; give one another name=")
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
