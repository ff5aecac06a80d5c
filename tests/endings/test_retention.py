"""The fleet makes the archive's days and drops them when they are over."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from headway import Headway, Job
from headway.errors import JobNotFound
from tests.endings.conftest import Db
from tests.support import Running, eventually

Start = Callable[..., Running]


def _day_is_there(db: Db, day: str) -> bool:
    return db.execute("select to_regclass(%s)", (f"archive_{day}",)).fetchone() != (None,)


async def _sweep(hw: Headway, start: Start, db: Db, moment: str, makes: str) -> Running:
    """A worker that lives at a moment; returns when it has made the day that comes last.

    It drops what is over in the same statement.
    """
    hw._session.clock.fixed = datetime.fromisoformat(moment)
    running = start()
    await eventually(lambda: _day_is_there(db, makes))
    return running


async def test_a_job_is_there_to_the_end_of_its_last_day_and_not_longer(
    hw: Headway, start: Start, db: Db
) -> None:
    @hw.task(keep="7d")
    async def task() -> str:
        return "kept"

    async def lived_until(moment: str, makes: str) -> None:
        await (await _sweep(hw, start, db, moment, makes)).stop()

    # Days are made for three more days than a job is kept.
    running = await _sweep(hw, start, db, "2040-01-01T12:00:00+00:00", "20400111")
    job: Job[Any] = await task.enqueue()
    assert await job.result(timeout="60s") == "kept"
    await running.stop()
    (place,) = db.execute("select tableoid::regclass::text from archive").fetchone() or (None,)
    assert place == "archive_20400108"

    await lived_until("2040-01-08T23:59:59+00:00", "20400118")
    assert await job.result() == "kept"
    await lived_until("2040-01-09T00:00:00+00:00", "20400119")
    with pytest.raises(JobNotFound):
        await job.result()
    assert not _day_is_there(db, "20400108")


async def test_what_waits_is_never_dropped(hw: Headway, start: Start, db: Db) -> None:
    @hw.task(keep="1d")
    async def task() -> None: ...

    hw._session.clock.fixed = datetime.fromisoformat("2040-01-01T00:00:00+00:00")
    job = await task.using(delay="400d").enqueue()
    running = await _sweep(hw, start, db, "2041-01-01T00:00:00+00:00", "20410105")
    assert (await job.status()).state == "scheduled"
    await running.stop()


async def test_s28_what_is_too_much_for_one_sweep_is_done_by_the_next_ones(
    hw: Headway, start: Start, db: Db
) -> None:
    """They follow at once, not after the ten minutes that lie between two sweeps."""

    @hw.task
    async def task() -> None: ...

    for moment in ("2040-01-01", "2040-03-01"):
        while db.execute("select add_partitions(%s, 31)", (moment,)).fetchone() != (0,):
            pass
    query = "select count(*) from pg_class where relnamespace = current_schema()::regnamespace "
    query += "and relname ~ '^(archive|attempt)_2040[0-9]+$'"
    (there,) = db.execute(query).fetchone() or (0,)
    assert there > 4 * 2 * 16, "more than four sweeps drop"
    hw._session.clock.fixed = datetime.fromisoformat("2042-01-01T00:00:00+00:00")
    running = start()
    await eventually(lambda: db.execute(query).fetchone() == (0,))
    await running.stop()


async def test_r11_a_job_kept_for_two_years_lies_in_the_partition_of_a_month(
    hw: Headway, start: Start, db: Db
) -> None:
    """And one that is kept for a hundred years in the one that is never dropped."""

    @hw.task(keep="2y")
    async def long() -> str:
        return "long"

    @hw.task(keep="forever")
    async def ever() -> str:
        return "ever"

    # A task is declared by its worker, and the next sweep has partitions for it.
    running = await _sweep(hw, start, db, "2040-01-01T12:00:00+00:00", "20400111")
    await running.stop()
    running = await _sweep(hw, start, db, "2040-01-02T12:00:00+00:00", "204201")
    jobs: list[Job[Any]] = [await long.enqueue(), await ever.enqueue()]
    assert [await job.result(timeout="60s") for job in jobs] == ["long", "ever"]
    await running.stop()
    query = "select tableoid::regclass::text from archive order by kept_until"
    assert db.execute(query).fetchall() == [("archive_204201",), ("archive_rest",)]
