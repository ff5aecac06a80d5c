"""Tries unfinished jobs and schedules against the definitions of an app."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from headway._api.job_filters import check_limit
from headway._api.registry import Registry
from headway._api.session import Session
from headway.core.check import Checker, CheckReport
from headway.core.names import check_name
from headway.errors import ConfigError
from headway.store.scripts import Script
from headway.store.statements import checks

_PAGE = 200
_MOST = 100_000_000
_MOST_SCHEDULES = 10_000


def check(
    session: Session, registry: Registry, queues: Sequence[str] | None, limit: int
) -> Script[CheckReport]:
    """Return what would not run. It reads in pages, and `limit` jobs at most."""
    check_limit(limit, _MOST)
    wanted = _checked(queues)
    definitions = registry.definitions()
    for definition in definitions.values():
        definition.check()
    checker, after, left = Checker(definitions), str(UUID(int=0)), limit
    complete = False
    while left > 0 and not complete:
        size = min(_PAGE, left)
        page: checks.CallPage = yield checks.unfinished(wanted, after, size)
        for call in page.calls:
            checker.look("job", call)
        left -= page.read
        after, complete = page.last or after, page.read < size
    stored: list[checks.ScheduleCall] = yield checks.schedule_calls(wanted, _MOST_SCHEDULES)
    declared = registry.declared()
    for schedule in stored:
        # A worker of this app writes those again that its code declares, and removes its others.
        own = schedule.declared and schedule.owner == declared.owner
        if own and (schedule.call.id in declared.names or declared.clean_up != "manual"):
            continue
        checker.look("schedule", schedule.call)
    return CheckReport(
        findings=checker.findings,
        jobs=checker.tried["job"],
        schedules=checker.tried["schedule"],
        complete=complete and len(stored) < _MOST_SCHEDULES,
    )


def _checked(queues: Sequence[str] | None) -> list[str] | None:
    """Return the names of queues as a list. Raise ConfigError if they are not names."""
    if queues is None:
        return None
    if isinstance(queues, str):
        raise ConfigError(f"queues={queues!r} is one name; give a list: [{queues!r}]")
    return [check_name(queue, "queue") for queue in queues]
