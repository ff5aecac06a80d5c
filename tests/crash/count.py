"""Counting: what was to happen once did happen once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import psycopg

from headway.job import Job


def unfinished(db: psycopg.Connection[Any]) -> int:
    """How many jobs live."""
    row = db.execute("select count(*) from job").fetchone()
    assert row is not None
    return int(row[0])


def finished(db: psycopg.Connection[Any]) -> int:
    """How many jobs have ended."""
    row = db.execute("select count(*) from archive").fetchone()
    assert row is not None
    return int(row[0])


def registered(db: psycopg.Connection[Any]) -> int:
    """How many workers have begun."""
    row = db.execute("select count(*) from worker").fetchone()
    assert row is not None
    return int(row[0])


def assert_each_finished_once(
    db: psycopg.Connection[Any], jobs: Iterable[Job[Any] | UUID], state: str = "succeeded"
) -> None:
    """None lost, none settled twice, none made twice: one row in the archive for each, nothing else."""
    ids = [job.id if isinstance(job, Job) else job for job in jobs]
    assert unfinished(db) == 0
    ended = Counter(row[0] for row in db.execute("select id from archive"))
    assert [id_ for id_ in ids if id_ not in ended] == [], "lost"
    assert [id_ for id_, count in ended.items() if count > 1] == [], "settled twice"
    assert ended.keys() - set(ids) == set(), "nobody made these"
    states = Counter(row[0] for row in db.execute("select label(state) from archive"))
    assert states == {state: len(ids)}


def assert_crashes_are_on_record(db: psycopg.Connection[Any]) -> int:
    """Of the jobs that succeeded none lost an attempt, and every claim but the last of each is a
    WorkerLost, or was given back; how many were lost."""
    unexplained = db.execute(
        """select id, attempt, claim >> 32, kinds from archive a
           left join lateral (select array_agg(error->>'type') as kinds
                              from attempt where job_id = a.id) n on true
           where a.attempt <> 1 or coalesce(cardinality(kinds), 0) > (a.claim >> 32) - 1
              or kinds is not null and 'WorkerLost' <> all (kinds)"""
    ).fetchall()
    assert unexplained == []
    row = db.execute("select count(*) from attempt").fetchone()
    assert row is not None
    return int(row[0])


def assert_no_overlap(db: psycopg.Connection[Any]) -> None:
    """No job's handler began before the one before it had ended, by the database's clock."""
    running: dict[UUID, tuple[int, int]] = {}
    for job_id, run, pid, what in db.execute(
        "select job_id, run, pid, what from seen order by at, number"
    ):
        if what == "began":
            assert job_id not in running, f"{job_id} ran twice at once"
            running[job_id] = (pid, run)
        elif what in ("ended", "stopped"):
            assert running.pop(job_id, None) == (pid, run), f"{job_id}: {what} out of turn"


def worker_ids(db: psycopg.Connection[Any], pid: int) -> list[int]:
    """Every id that a process has worked under, oldest first."""
    rows = db.execute("select id from worker where name like %s order by id", (f"%:{pid}",))
    return [row[0] for row in rows]


def held_by(db: psycopg.Connection[Any], pid: int) -> int:
    """How many jobs a process holds."""
    row = db.execute(
        "select count(*) from job where worker_id = any (%s)", (worker_ids(db, pid),)
    ).fetchone()
    assert row is not None
    return int(row[0])


def finished_by(db: psycopg.Connection[Any], pid: int) -> int:
    """How many jobs a process has settled."""
    row = db.execute(
        "select count(*) from archive where worker_id = any (%s)", (worker_ids(db, pid),)
    ).fetchone()
    assert row is not None
    return int(row[0])


def told(db: psycopg.Connection[Any], what: str, pid: int | None = None) -> int:
    """How often handlers (of one process) have said `what`."""
    row = db.execute(
        "select count(*) from seen where what = %s and pid = coalesce(%s, pid)", (what, pid)
    ).fetchone()
    assert row is not None
    return int(row[0])
