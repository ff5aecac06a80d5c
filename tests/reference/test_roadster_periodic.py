"""Periodic jobs: what roadster keeps in a queue with hashes, Headway keeps in a table with names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from headway import Headway, Schedule, preview
from headway.core import codec
from headway.core.clock import Clock
from headway.core.schedule import named
from tests.reference.scenes import work_of
from tests.store.store import Store

FRIDAY = datetime(2040, 6, 1, 7, 59, 30, tzinfo=UTC)
EIGHT = FRIDAY + timedelta(seconds=30)
SPEC = "0 8 * * *"
OCCURRENCE = "2040-06-01T08:00:00Z"


def _at(hw: Headway, moment: datetime) -> None:
    hw.session.clock = Clock(moment)


def _greeting(hw: Headway, **options: Any) -> Any:
    @hw.task(**options)
    async def greet(name: str) -> str:
        return f"hello {name}"

    return greet


async def _fired(hw: Headway, db: psycopg.Connection[Any], **options: Any) -> dict[str, Any]:
    """The job of the first occurrence, before it ran."""
    schedule = Schedule(SPEC, "breakfast", {"name": "Ada"})
    _greeting(hw, queue="mail", schedule=schedule, **options)
    _at(hw, FRIDAY)
    await hw.run_until_idle()
    _at(hw, EIGHT)
    await hw.run_until_idle(queues={"elsewhere": 1})
    (row,) = db.execute("select to_jsonb(jobs) from jobs").fetchall()
    return row[0]


async def test_r11_no_queue_is_set_aside_for_periodic_jobs(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Roadster: a queue named `periodic` holds them, and a poller sends copies. Headway: schedules are
    no jobs; what they make is in the queue of its task at once."""
    job = await _fired(hw, db)
    assert (job["queue"], job["state"]) == ("mail", "ready")
    assert [row.name for row in await hw.queues.metrics()] == ["mail"]


def test_r12_the_next_run_follows_from_a_moment() -> None:
    """Roadster: the delay until the next run of a cron. Headway: the moment, in any zone."""
    assert preview(SPEC, after=FRIDAY, count=1) == [EIGHT]
    assert preview("*/10 * * * * *", after=FRIDAY, count=1) == [FRIDAY + timedelta(seconds=10)]
    (berlin,) = preview(f"{SPEC}[Europe/Berlin]", after=FRIDAY, count=1)
    assert berlin.isoformat() == "2040-06-02T08:00:00+02:00"


def test_r13_what_a_schedule_is_known_by_does_not_change() -> None:
    """Roadster: a hash of name, schedule and input. Headway: names, which stay when an input changes
    and are the same for every version of everything."""
    specs = ["0 8 * * *", Schedule("0 9 * * *", input={"number": 1}), Schedule("@daily", "nightly")]
    known = ["work", "work: 0 9 * * *", "nightly"]
    assert list(named("work", specs)) == known
    assert list(named("work", [*specs[:1], Schedule("0 9 * * *"), specs[2]])) == known


async def test_r14_a_job_is_stored_as_its_task_and_its_arguments_by_name(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Roadster: metadata with id and name, and args. Headway: columns, and a JSON object of arguments
    that reads back as it was."""
    greet = _greeting(hw)
    job = await greet.enqueue("Ada")
    (row,) = db.execute(
        "select id, task, step, queue, input::text, headers, options from job"
    ).fetchall()
    assert row == (job.id, "greet", "", "default", '{"name": "Ada"}', None, None)
    assert codec.decode(row[4]) == {"name": "Ada"}
    await hw.run_until_idle()
    assert await job.result() == "hello Ada"


async def test_r15_a_periodic_job_is_a_job_that_says_what_made_it(
    hw: Headway, db: psycopg.Connection[Any]
) -> None:
    """Roadster: a body with a hash and a cron. Headway: a job like any other, with two headers."""
    job = await _fired(hw, db)
    assert (job["task"], job["input"]) == ("greet", {"name": "Ada"})
    assert job["headers"] == {"schedule": "breakfast", "occurrence": OCCURRENCE}
    await hw.run_until_idle()
    assert await hw.job(job["id"]).result() == "hello Ada"
    status = await hw.schedules.get("breakfast")
    assert status is not None
    assert (status.last_at, str(status.last_job)) == (EIGHT, job["id"])


async def test_r16_the_job_is_unique_by_the_name_and_the_moment_of_its_occurrence(
    hw: Headway, db: psycopg.Connection[Any], store: Store
) -> None:
    """Roadster: the hash in a job is that of its args. Headway: the key of a job is made of what its
    headers say, so that nobody makes the occurrence a second time."""
    job = await _fired(hw, db)
    headers = job["headers"]
    assert job["keys"] == {"unique": f"{headers['schedule']}@{headers['occurrence']}"}
    again = store.enqueue(task="greet", unique_key=job["keys"]["unique"])
    assert str(again) == job["id"]


async def test_r16_another_call_of_the_same_task_is_not_in_its_way(hw: Headway) -> None:
    """Roadster: the hash is of periodic jobs alone. Headway: the key, too."""
    work = work_of(hw)
    await hw.schedules.put("nightly", work, "@daily")
    by_hand = await hw.schedules.run("nightly")
    made = [await work.enqueue() for _ in range(2)]
    assert len({by_hand.id, *(job.id for job in made)}) == 3
