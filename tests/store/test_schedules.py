"""Schedules as statements: put, read, fired by one of many, paused, cleaned up."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from headway.core.firing import written
from headway.core.ids import new_id
from headway.store.statement import Statement
from headway.store.statements import fleet, schedules
from headway.store.statements.schedules import DueRow, Occurrence, Put
from tests.store.aside import Aside
from tests.store.store import NOW, TASK, Store, new_job

HOUR = timedelta(hours=1)


def put(store: Store, *names: str, **options: Any) -> dict[str, bool]:
    said = {"owner": "", "declared": False, "missing": False}
    said |= {name: options.pop(name) for name in list(options) if name in said}
    made = [_put(name, **options) for name in names or ("nightly",)]
    return store.run(schedules.put(store.target, made, now=store.now, **said))  # type: ignore[arg-type]


def _put(name: str, **fields: Any) -> Put:
    given: dict[str, Any] = {
        "task": TASK,
        "spec": "@hourly",
        "job": new_job(input=fields.pop("input", {}), **fields.pop("of_job", {})),
        "call": None,
        "catch_up": "one",
        "most": 100,
        "overlap": "allow",
        "jitter": 0.0,
        "ends_at": None,
        "last": None,
    }
    return Put(name, **given | fields)


def due(store: Store) -> DueRow:
    (row,) = store.run(schedules.due(10, store.now)).rows
    return row


def fire(store: Store, row: DueRow, *moments: datetime) -> Statement[bool]:
    """Makes these occurrences, and moves the schedule on to this moment."""
    return schedules.fire(
        store.target,
        row,
        [Occurrence(str(new_id()), written(moment), None) for moment in moments],
        until=store.now,
        next_at=store.now + HOUR,
        now=store.now,
    )


def kept(store: Store, name: str = "nightly") -> dict[str, Any]:
    return store.one("select * from schedule where name = %s", name)


# -- firing ---------------------------------------------------------------------------------------


def test_firing_makes_the_job_and_moves_the_schedule_in_one_statement(store: Store) -> None:
    put(store)
    store.advance(3600)
    assert store.run(fire(store, due(store), store.now)) == 1
    job = store.one("select * from job")
    assert job["unique_key"] == "nightly@2040-01-01T13:00:00Z"
    assert job["headers"] == {"schedule": "nightly", "occurrence": "2040-01-01T13:00:00Z"}
    row = kept(store)
    assert (row["done_until"], row["next_at"]) == (store.now, store.now + HOUR)
    assert (row["last_at"], row["last_job"]) == (store.now, job["id"])
    assert store.run(schedules.due(10, store.now)).rows == []


def test_of_two_firers_with_the_same_row_one_moves_it(store: Store) -> None:
    put(store)
    store.advance(3600)
    row = due(store)
    assert store.run(fire(store, row, store.now)) == 1
    assert store.run(fire(store, row, store.now)) is None
    assert store.count("job") == 1


def test_a_schedule_that_was_changed_meanwhile_is_not_fired_with_what_was_read(
    store: Store,
) -> None:
    put(store, input={"n": 1})
    store.advance(3600)
    row = due(store)
    put(store, input={"n": 2})
    assert store.run(fire(store, row, store.now)) is None
    assert store.count("job") == 0
    assert store.run(fire(store, due(store), store.now)) == 1
    assert store.one("select input from job")["input"] == {"n": 2}


def test_a_schedule_that_was_paused_or_removed_meanwhile_is_not_fired(store: Store) -> None:
    put(store, "a", "b")
    store.advance(3600)
    rows = {row.name: row for row in store.run(schedules.due(10, store.now)).rows}
    store.run(schedules.pause("a", actor="ada", reason=None, now=store.now))
    store.run(schedules.remove("b"))
    assert store.run(fire(store, rows["a"], store.now)) is None
    assert store.run(fire(store, rows["b"], store.now)) is None
    assert store.count("job") == 0


def test_an_occurrence_whose_job_is_there_makes_no_second(store: Store) -> None:
    """The net below the fence: the occurrence is the job's unique key."""
    put(store)
    store.advance(3600)
    occurrence = store.now
    store.run(fire(store, due(store), occurrence))
    store.eyes.execute("update schedule set done_until = %s, next_at = %s", (NOW, NOW))
    assert store.run(fire(store, due(store), occurrence)) == 0
    assert store.count("job") == 1
    assert kept(store)["last_job"] == store.one("select id from job")["id"]


def test_many_occurrences_are_made_in_their_order(store: Store) -> None:
    put(store)
    store.advance(3 * 3600)
    moments = [NOW + HOUR, NOW + 2 * HOUR, NOW + 3 * HOUR]
    assert store.run(fire(store, due(store), *moments)) == 3
    rows = store.rows("select headers ->> 'occurrence' as at from job order by seq")
    assert [row["at"] for row in rows] == [written(moment) for moment in moments]


def test_firing_nothing_moves_it_on_and_keeps_what_was_last(store: Store) -> None:
    put(store)
    store.advance(3600)
    store.run(fire(store, due(store), store.now))
    before = kept(store)
    store.advance(3600)
    assert store.run(fire(store, due(store))) == 0
    after = kept(store)
    assert (after["last_at"], after["last_job"]) == (before["last_at"], before["last_job"])
    assert after["done_until"] == store.now


def test_workers_are_notified_of_new_jobs(store: Store) -> None:
    queue = f"mail {uuid4()}"
    put(store, of_job={"queue": queue})
    store.advance(3600)
    row = due(store)
    with store.listening() as heard:
        store.run(fire(store, row, store.now))
        assert [words for words in heard() if queue in words] == [f"ready 0 {queue}"]


# -- due ------------------------------------------------------------------------------------------


def test_what_is_due_is_read_with_how_long_it_is_until_the_next(store: Store) -> None:
    assert store.run(schedules.due(10, store.now)) == schedules.Due(NOW, None, [])
    put(store, "a", "b")
    store.run(fire(store, _row(store, "a")))
    found = store.run(schedules.due(10, store.now))
    assert (found.now, found.next_due_in) == (NOW, 3600.0)
    assert [row.name for row in found.rows] == ["b"]
    store.run(schedules.pause("a", actor=None, reason=None, now=store.now))
    assert store.run(schedules.due(10, store.now)).next_due_in is None
    store.advance(3600)
    assert [row.name for row in store.run(schedules.due(10, store.now)).rows] == ["b"]


def test_the_longest_due_come_first_and_no_more_than_asked_for(store: Store) -> None:
    for name in ("c", "a", "b"):
        put(store, name)
        store.advance(1)
    found = store.run(schedules.due(2, store.now))
    assert [row.name for row in found.rows] == ["c", "a"]


def _row(store: Store, name: str) -> DueRow:
    return next(row for row in store.run(schedules.due(10, store.now)).rows if row.name == name)


# -- putting --------------------------------------------------------------------------------------


def test_putting_rings_once_and_only_if_something_changed(store: Store) -> None:
    with store.listening() as heard:
        assert put(store, "a", "b") == {"a": False, "b": False}
        assert heard() == ["schedule"]
        put(store, "a", "b")
        assert heard() == []


def test_the_same_spec_keeps_where_it_stands_and_another_begins_now(store: Store) -> None:
    put(store, spec="@every 1h")
    store.advance(60)
    put(store, spec="@every 1h", most=5)
    row = kept(store)
    assert (row["since"], row["done_until"], row["version"]) == (NOW, NOW, 2)
    put(store, spec="@every 2h", most=5)
    row = kept(store)
    assert (row["since"], row["done_until"], row["version"]) == (store.now, store.now, 3)


def test_what_can_never_be_due_again_is_not_put_unless_code_declares_it(store: Store) -> None:
    assert put(store, last=NOW) == {}
    assert put(store, last=NOW, declared=True) == {"nightly": False}
    assert put(store, "later", last=NOW + HOUR) == {"later": False}


def test_code_does_not_replace_a_persons_schedule_and_reports_it(store: Store) -> None:
    put(store, "put")
    put(store, "theirs", owner="billing", declared=True)
    put(store, "nobodys", declared=True)
    names = ("put", "theirs", "nobodys", "new")
    taken = put(store, *names, owner="mail", declared=True, spec="@daily")
    assert taken == {"put": True, "theirs": True, "nobodys": True, "new": False}
    specs = {row["name"]: row["spec"] for row in store.rows("select name, spec from schedule")}
    assert specs == {"put": "@hourly", "theirs": "@hourly", "nobodys": "@hourly", "new": "@daily"}
    assert put(store, "theirs", spec="@weekly") == {"theirs": False}, "a person does not"
    assert (kept(store, "theirs")["declared"], kept(store, "theirs")["owner"]) == (False, "")


def test_what_is_missing_is_put_and_what_is_there_is_left(store: Store) -> None:
    put(store, "a", declared=True)
    put(store, "a", "b", declared=True, missing=True, spec="@daily")
    specs = {row["name"]: row["spec"] for row in store.rows("select name, spec from schedule")}
    assert specs == {"a": "@hourly", "b": "@daily"}


def test_putting_the_same_schedules_in_two_orders_at_once_does_not_deadlock(store: Store) -> None:
    put(store, "a", "b")
    backwards = [_put("b", most=7), _put("a", most=7)]
    said: dict[str, Any] = {"owner": "", "declared": False, "now": store.now}
    with store.conn.transaction():
        put(store, "a", most=5)
        other = Aside(store, schedules.put(store.target, backwards, **said)).wait_until_it_waits()
        put(store, "b", most=5)
    assert other.answer() == {"a": False, "b": False}
    assert {row["most"] for row in store.rows("select most from schedule")} == {7}


# -- pausing, running, cleaning up ----------------------------------------------------------------


def test_resuming_says_what_it_found(store: Store) -> None:
    assert store.run(schedules.resume(store.target, "nightly", store.now)) is None
    put(store)
    assert store.run(schedules.resume(store.target, "nightly", store.now)) is False
    store.run(schedules.pause("nightly", actor="ada", reason="why", now=store.now))
    store.advance(7200)
    with store.listening() as heard:
        assert store.run(schedules.resume(store.target, "nightly", store.now)) is True
        assert heard() == ["schedule"]
    assert kept(store)["done_until"] == store.now
    assert store.run(schedules.pause("gone", actor=None, reason=None, now=store.now)) is False


def test_a_schedule_that_has_ended_stays_so_when_it_is_resumed(store: Store) -> None:
    put(store)
    store.eyes.execute("update schedule set next_at = null")
    store.run(schedules.pause("nightly", actor=None, reason=None, now=store.now))
    assert store.run(schedules.resume(store.target, "nightly", store.now)) is True
    assert kept(store)["next_at"] is None


def test_running_now_returns_the_job_or_the_holder_of_its_key(store: Store) -> None:
    first, second = uuid4(), uuid4()
    assert store.run(schedules.run(store.target, "nightly", first, store.now)) is None
    put(store, of_job={"unique_key": "nightly"})
    before = store.everything()["schedule"]
    assert _made(store, first) == first
    assert _made(store, second) == first
    assert store.everything()["schedule"] == before
    assert store.row(first)["headers"]["manual"] == "true"


def _made(store: Store, job_id: UUID) -> UUID | None:
    return store.run(schedules.run(store.target, "nightly", job_id, store.now))


def clean(store: Store, *names: str, owner: str = "", stale: bool = False) -> list[str]:
    return sorted(store.run(schedules.clean(owner, [TASK], names, stale=stale, now=store.now)))


def test_only_what_this_app_declared_is_cleaned_up(store: Store) -> None:
    put(store, "put", owner="mail")
    put(store, "mine", "kept", owner="mail", declared=True)
    put(store, "theirs", owner="billing", declared=True)
    put(store, "nobodys", declared=True)
    put(store, "unknown", declared=True, task="other")
    assert clean(store, "kept", owner="mail") == ["mine"]
    assert clean(store, owner="") == ["nobodys"]
    assert clean(store, owner="billing") == ["theirs"]


def test_what_a_living_worker_declares_is_not_stale(store: Store) -> None:
    put(store, "a", "b", declared=True)
    worker = store.run(
        fleet.register("host:1", "0", 1, ["q"], [TASK], 30, store.now, schedules=["a"])
    )
    assert clean(store, stale=True) == ["b"]
    store.advance(31)
    assert clean(store, stale=True) == ["a"], "its lease is over"
    assert worker
