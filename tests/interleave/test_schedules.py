"""An occurrence makes one job, while sessions fire, put, pause or die at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headway.core import cron
from headway.core.firing import plan, written
from headway.core.ids import new_id
from headway.store.statement import Statement
from headway.store.statements import schedules
from headway.store.statements.schedules import DueRow, Occurrence, Put
from tests.interleave.driver import Every, Session, Step, begin, commit, does, rollback, says
from tests.store.store import TASK, Store

ENDS = {"commit": commit, "rollback": rollback}
_JOB = {"queue": "q", "task": TASK, "max_attempts": 3, "priority": 0, "input": {"n": 1}}
MINUTELY = Put(
    name="minutely", task=TASK, spec="* * * * *", job=_JOB, call=None, catch_up="skip", most=9,
    overlap="allow", jitter=0, ends_at=None, last=None,
)  # fmt: skip


def _put(store: Store, given: Put) -> Statement[Any]:
    return schedules.put(store.target, [given], owner="", declared=False, now=store.now)


def _due(store: Store) -> list[DueRow]:
    return store.run(schedules.due(9, store.now)).rows


def _fire(store: Store, row: DueRow) -> Statement[int | None]:
    """As the scheduler does, from what it read."""
    decided = plan(
        cron.parse(row.spec), after=row.done_until, now=store.now, since=row.since,
        ends=row.ends_at, catch_up=row.catch_up, most=row.most,
    )  # fmt: skip
    made = [Occurrence(str(new_id()), written(moment), None) for moment in decided.occurrences]
    return schedules.fire(
        store.target, row, made, until=max(store.now, row.done_until), next_at=decided.next_at,
        now=store.now,
    )  # fmt: skip


def _make(store: Store) -> DueRow:
    """A schedule whose next occurrence is due, as a firer reads it."""
    store.clear()
    store.run(_put(store, MINUTELY))
    for row in _due(store):  # the first look finds out when it is due
        store.run(_fire(store, row))
    assert _due(store) == []
    store.advance(60)
    (row,) = _due(store)
    return row


def _alone(statement: Callable[[], Statement[Any]], end: Step = commit) -> list[Step]:
    return [does(begin, says(statement)), end]


def _fires(store: Store, row: DueRow, end: Step = commit) -> list[Step]:
    return _alone(lambda: _fire(store, row), end)


def _fires_late(store: Store, row: DueRow) -> Step:
    """Fires what was read before; whether it had been changed by then, and whether it was fired."""

    def fire(session: Session) -> tuple[bool, bool]:
        (now,) = session.run(schedules.due(9, store.now)).rows
        return now != row, bool(session.run(_fire(store, row)))

    return fire


def _occurrences(store: Store) -> list[str]:
    rows = store.rows("select headers ->> 'occurrence' as at from job order by at")
    return [row["at"] for row in rows]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("firers", [2, 3])
def test_of_several_firings_at_once_one_makes_the_job(
    store: Store, every: Every, firers: int, end: str
) -> None:
    def setup() -> list[list[Step]]:
        row = _make(store)
        return [_fires(store, row, commit if n else ENDS[end]) for n in range(firers)]

    def after(answers: list[list[Any]]) -> None:
        fired = [answer for answer, _ in answers]
        lasting = fired if end == "commit" else fired[1:]
        if 1 not in lasting:  # a session that found it locked left it to the next scan
            assert end == "rollback"
            lasting += [store.run(_fire(store, row)) for row in _due(store)]
        assert lasting.count(1) == 1, "made once, also when the first one rolled back"
        assert _occurrences(store) == [written(store.now)]
        assert _due(store) == []

    assert every.order(setup, after) >= 4


def _another_input(_: Store) -> Put:
    return replace(MINUTELY, job=_JOB | {"input": {"n": 2}})


def _another_spec(_: Store) -> Put:
    return replace(MINUTELY, spec="*/2 * * * *")


def _an_end(store: Store) -> Put:
    return replace(MINUTELY, ends_at=store.now - timedelta(seconds=30))


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("change", [_another_input, _another_spec, _an_end])
def test_what_is_put_while_it_is_fired_loses_and_repeats_nothing(
    store: Store, every: Every, change: Callable[[Store], Put], end: str
) -> None:
    """It goes on where it was; another spec begins when it is put, and behind its end nothing is made."""

    def setup() -> list[list[Step]]:
        row = _make(store)
        new = change(store)
        return [
            _alone(lambda: _put(store, new), ENDS[end]),
            [begin, _fires_late(store, row), commit],
        ]

    def after(answers: list[list[Any]]) -> None:
        _, (_, (changed, fired), _) = answers
        assert not (changed and fired), "fired as it was before the change"
        assert all(store.run(_fire(store, row)) is not None for row in _due(store))
        made = fired or change is _another_input or end == "rollback"
        assert _occurrences(store) == [written(store.now)] * made
        assert _due(store) == []
        (row,) = store.run(schedules.schedules("minutely", store.now))
        put = change(store) if end == "commit" else MINUTELY
        assert (row.spec, row.input, row.ends_at) == (put.spec, put.job["input"], put.ends_at)

    every.order(setup, after)


def test_who_fires_what_is_paused_or_removed_makes_nothing(store: Store, every: Every) -> None:
    def setup() -> list[list[Step]]:
        row = _make(store)
        pause = schedules.pause("minutely", actor="ada", reason=None, now=store.now)
        return [
            _alone(lambda: pause),
            _fires(store, row),
            _alone(lambda: schedules.remove("minutely")),
        ]

    def after(answers: list[list[Any]]) -> None:
        (paused, _), (fired, _), (removed, _) = answers
        assert removed
        assert len(_occurrences(store)) == (fired or 0)
        assert paused or not store.count("schedule")

    every.order(setup, after)
