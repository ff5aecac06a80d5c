"""Runs statements one at a time, at a moment that the test chooses, and reads what they left."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from headway.core import codec
from headway.core.failure import envelope
from headway.core.flow import Advance
from headway.core.ids import new_id
from headway.core.info import ControlKind as Controlled
from headway.core.limits import Limit
from headway.core.verdict import Kind, Verdict
from headway.store.connections import connect
from headway.store.connections.connect import Target
from headway.store.documents import Ask, NewJob, Settled, Share
from headway.store.rows import Claim
from headway.store.statement import Statement, text
from headway.store.statements import controls, fleet, jobs
from tests.support import DEADLINE

R = TypeVar("R")

NOW = datetime(2040, 1, 1, 12, tzinfo=UTC)
"""A noon that no test waits for."""

TABLES = (
    "job",
    "archive",
    "attempt",
    "worker",
    "leader",
    "control",
    *("awaited", "fan_in"),
    "stop_request",
    "drain_request",
    "unkept",
    "unique_period",
    "task",
    "tally",
    "total",
    "census",
    "bucket",
    "start",
    "schedule",
)
TASK = "resize"
_ENDS = ("succeed", "fail", "cancel")
_numbers = itertools.count(1)


def engine_connection(dsn: str) -> psycopg.Connection[Any]:
    """A connection with the settings of the engine's own."""
    conn = psycopg.connect(dsn, autocommit=True)
    conn.execute(connect._ENGINE_SESSION)  # pyright: ignore[reportPrivateUsage]
    return conn


def new_job(**fields: Any) -> NewJob:
    """A job to be made, with what a test does not care about filled in."""
    given: dict[str, Any] = {
        "id": str(new_id()),
        "queue": "q",
        "task": TASK,
        "priority": 0,
        "max_attempts": 3,
        "input": {"n": next(_numbers)},
    }
    given |= fields
    given["input"] = codec.Raw(codec.encode(given["input"]))
    return NewJob(**given)


class Asked(NamedTuple):
    """A line of a claim, and the queue that it is of."""

    queue: str
    ask: Ask


def ask(
    queue: str = "q",
    priority: int = 0,
    *,
    cursor: int = 0,
    room: int = 100,
    tasks: Sequence[str] = (TASK,),
    alone: bool = False,
) -> Asked:
    """`alone` is for a handler that has the line to itself, as one with a limit must."""
    return Asked(queue, Ask(priority, cursor, room, tuple(tasks), alone))


def shares(asks: Sequence[Asked], room: int = 100) -> list[Share]:
    """Return shares of a claim, by queue and in the given order; at most `room` of each queue."""
    found: dict[str, Share] = {}
    for queue, one in asks:
        found.setdefault(queue, Share(queue, room, [])).lines.append(one)
    return list(found.values())


def a_claim(job_id: UUID | str, number: int = 1) -> Claim:
    """A claim that somebody may have had; only a real one comes from `claim`."""
    return Claim(str(job_id), number, TASK, "", 1, 3, "q", 0, 1, None, "{}", None, None, None)


def counted(claim: Claim) -> int:
    """Return how many claims of its job there were: the part of the number that counts."""
    return claim.number >> 32


def verdict(
    kind: Kind,
    *,
    result: Any = None,
    delay: float = 0.0,
    error: str = "",
    carried: Any = None,
    children: Sequence[NewJob] | None = None,
    crashed: bool = False,
    **move: Any,
) -> Verdict:
    """A verdict as the engine would make it: what fails or is tried again carries an error, what
    advances the next step (`move` are fields of it)."""
    failed = kind in ("fail", "retry", "cancel")
    return Verdict(
        kind,
        result=codec.encode(result) if kind == "succeed" else None,
        error=envelope("Oops", error or kind) if failed else None,
        delay=delay,
        advance=step(delay=delay, **move) if kind == "advance" else None,
        carried=None if carried is None else codec.encode(carried),
        children=None if children is None else list(children),
        crashed=crashed,
    )


def step(**fields: Any) -> Advance:
    """The move to a step, with what a test does not care about filled in."""
    given: dict[str, Any] = {
        "step": "two",
        "input": {},
        "delay": 0.0,
        "queue": "q",
        "priority": 0,
        "max_attempts": 3,
        "key": None,
        "key_limit": None,
        "ordered": False,
    }
    given |= fields
    given["input"] = codec.encode(given["input"])
    if given["key"] is not None and given["key_limit"] is None:
        given["key_limit"] = 1
    return Advance(**given)


class Store:
    """One connection like the engine's, a clock of the test's, and another connection to look with."""

    def __init__(self, dsn: str, schema: str) -> None:
        self.dsn = dsn
        self.schema = schema
        self.target = Target(dsn, schema)
        self.quiet = Target(dsn, schema, notify=False)
        self.now = NOW
        self.conn = engine_connection(dsn)
        self.eyes = psycopg.connect(dsn, autocommit=True, row_factory=dict_row)
        self.eyes.execute(sql.SQL("set search_path = {}").format(sql.Identifier(schema)))

    def close(self) -> None:
        self.conn.close()
        self.eyes.close()

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def run(self, statement: Statement[R], conn: psycopg.Connection[Any] | None = None) -> R:
        query = text(statement.name, self.schema)
        cursor = (conn or self.conn).execute(query, statement.params)
        if statement.counted:
            return statement.read([(cursor.rowcount,)])
        return statement.read(cursor.fetchall() if cursor.description else [])

    # -- commands, at this store's moment ---------------------------------------------------------

    def enqueue(self, **fields: Any) -> UUID:
        """A new job. With a unique key that is taken: the job that has it."""
        job = new_job(**fields)
        taken = self.run(jobs.enqueue(self.target, [job], self.now))
        return UUID(taken.get(job.id, job.id))

    def admit(self, *keys: str) -> int:
        """Return how many were admitted under these keys, or under all keys."""
        lines = keys or [row["key"] for row in self.rows("select distinct key from job")]
        wanted = [key for key in lines if key is not None]
        with self.conn.transaction():
            self.run(jobs.lock_keys(wanted))
            self.run(jobs.unadmit(wanted, self.now))
            return self.run(jobs.admit(self.target, wanted, self.now)).count

    def declare(self, name: str = TASK, **fields: Any) -> None:
        """Declare a task as a worker does."""
        given: dict[str, Any] = {"queue": "q", "priority": 0, "max_attempts": 3}
        given |= {"keep_succeeded": "7 days", "keep_failed": "30 days"} | fields
        columns = sql.SQL(", ").join(map(sql.Identifier, given))
        values = sql.SQL(", ").join(sql.Placeholder() * len(given))
        query = sql.SQL("insert into task (name, {}) values (%s, {})").format(columns, values)
        self.eyes.execute(query, [name, *given.values()])

    def register(self, *, lease: float = 30, tasks: Sequence[str] = (TASK,)) -> int:
        return self.run(fleet.register("host:1", "0", 10, ["q"], tasks, lease, self.now))

    def claim(self, worker: int, *asks: Asked, room: int = 100) -> list[Claim]:
        asked = shares(asks or [ask()], room)  # a plain claim must find the same, or a control
        with self.conn.transaction(force_rollback=True):
            plain = self.run(jobs.claim_plain(worker, asked, self.now))
        claims = self.run(jobs.claim(worker, asked, self.now))
        if plain is None:
            assert any(one.paused or one.limited for one in self.run(controls.read(self.now)))
        else:  # the numbers are partly random
            assert [replace(one, number=0) for one in plain] == [
                replace(one, number=0) for one in claims
            ]
        return claims

    def cancel(self, job_id: UUID | str, conn: psycopg.Connection[Any] | None = None) -> str | None:
        """Cancel a job. Return "cancelled", "asked", or none if it does not live."""
        return self.run(jobs.cancel(self.target, [job_id], self.now), conn).get(str(job_id))

    def cancel_asked(self) -> int:
        """Cancel what waits although it was asked to stop, as the leader does. Return how many."""
        ids = self.run(jobs.asked(100))
        answers = self.run(jobs.cancel(self.target, ids, self.now))
        return list(answers.values()).count("cancelled")

    def rescue(
        self, limit: int = 100, conn: psycopg.Connection[Any] | None = None
    ) -> tuple[int, int]:
        """Take back the jobs of lost workers. Return how many run again, and how many ended."""
        rescued = self.run(jobs.rescue(self.target, limit, self.now), conn)
        again = sum(one.came_to == "r" for one in rescued)
        return again, len(rescued) - again

    def pause(self, name: str, kind: Controlled = "queue", **said: Any) -> datetime:
        said = {"actor": None, "reason": None, "until": None} | said
        return self.run(controls.pause(self.target, kind, name, now=self.now, **said))

    def resume(self, name: str, kind: Controlled = "queue") -> bool:
        return self.run(controls.resume(self.target, kind, name, self.now))

    def limit(self, name: str, kind: Controlled = "queue", **numbers: Any) -> None:
        """Sets a limit, as `hw.controls.limit` does; with no numbers it lifts it."""
        limit = Limit(**numbers) if numbers else None
        with self.conn.transaction():
            self.run(controls.set_limit(self.target, kind, name, limit, "ada", self.now))
            self.run(controls.mark_limited())

    def spent_until(self, name: str, kind: Controlled = "queue") -> datetime | None:
        """When all tokens of a queue's or task's rate will have been earned again."""
        where = "where name = %s and kind = %s"
        return self.one(f"select spent_until from ({CONTROLS}) c {where}", name, kind)[
            "spent_until"
        ]

    def held(self, worker: int, **fields: Any) -> Claim:
        """A new job, claimed. Nothing else may be ready in its lane."""
        self.enqueue(**fields)
        if fields.get("key") is not None:
            assert self.admit(fields["key"]) == 1
        queue, priority = fields.get("queue", "q"), fields.get("priority", 0)
        handler = "/".join(filter(None, (fields.get("task", TASK), fields.get("step"))))
        (claim,) = self.claim(worker, ask(queue, priority, tasks=[handler]))
        return claim

    def settle(self, claim: Claim, kind: Kind, **fields: Any) -> bool:
        """Whether the verdict took effect."""
        return self.answer(claim, kind, **fields) is None

    def answer(
        self,
        claim: Claim,
        kind: Kind,
        *,
        conn: psycopg.Connection[Any] | None = None,
        careful: bool = False,
        **fields: Any,
    ) -> str | None:
        """Settle a claim. Return why the verdict took no effect; none if it did."""
        settled = [Settled(claim, verdict(kind, **fields))]
        if kind in _ENDS:
            statement = jobs.finish(self.target, settled, self.now, careful=careful)
        elif kind == "advance":
            statement = jobs.advance(self.target, settled, self.now)
        else:
            statement = jobs.requeue(self.target, 0, settled, self.now)
        return self.run(statement, conn).get(claim.id)

    # -- looking ----------------------------------------------------------------------------------

    def rows(self, query: str, *params: Any) -> list[dict[str, Any]]:
        return self.eyes.execute(query, params or None).fetchall()  # type: ignore[arg-type]

    def one(self, query: str, *params: Any) -> dict[str, Any]:
        (row,) = self.rows(query, *params)
        return row

    def count(self, table: str) -> int:
        return self.one(f"select count(*) as n from {table}")["n"]

    def live(self, job_id: UUID | str) -> dict[str, Any] | None:
        """The row of `job`."""
        return next(iter(self.rows(_LIVE, str(job_id))), None)

    def row(self, job_id: UUID | str) -> dict[str, Any]:
        """The row of `job`, which must be there."""
        row = self.live(job_id)
        assert row is not None, f"job {job_id} does not live"
        return row

    def archived(self, job_id: UUID | str) -> dict[str, Any] | None:
        """The row of `archive`."""
        return next(iter(self.rows(_ARCHIVED, str(job_id))), None)

    def attempts(self, job_id: UUID | str) -> list[dict[str, Any]]:
        return self.rows(_ATTEMPTS, str(job_id))

    def states(self, job_id: UUID | str) -> list[str]:
        """The labels of every row that there is of a job: one, or none."""
        query = "select state from jobs where id = %s"
        return [row["state"] for row in self.rows(query, str(job_id))]

    def everything(self) -> dict[str, list[str]]:
        """Every row of every table, with where it lies: equal only if nothing was written."""
        return {
            table: sorted(
                row["line"]
                for row in self.rows(
                    f"select tableoid::regclass::text || ctid::text || t::text as line from {table} t"
                )
            )
            for table in TABLES
        }

    def clear(self) -> None:
        """An empty schema at the first moment. One round trip: the proofs do this for every order."""
        deletes = "; ".join(f"delete from {table}" for table in TABLES)
        self.eyes.execute(sql.SQL(f"{deletes}; select setval('job_seq', 1, false)"))
        self.now = NOW

    def terminate(self, application: str) -> int:
        """Ends the connections of this name to this database; how many there were."""
        query = (
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where application_name = %s and datname = current_database()"
        )
        return len(self.rows(query, application))

    @contextmanager
    def listening(self, *channels: str | None) -> Iterator[Callable[[], list[str]]]:
        """Gives a function that says what was notified since, once it has all arrived."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            for channel in channels or (self.target.work_channel,):
                conn.execute(sql.SQL("listen {}").format(sql.Identifier(str(channel))))
            conn.execute("listen test_end")

            def heard() -> list[str]:
                # Notifications arrive in the order of commits: behind ours, nothing is missing.
                self.eyes.execute("notify test_end")
                payloads: list[str] = []
                for note in conn.notifies(timeout=DEADLINE):
                    if note.channel == "test_end":
                        return payloads
                    payloads.append(note.payload)
                raise AssertionError("our own notification never arrived")

            yield heard


# `claims` is the part of the claim number that counts.
CONTROLS = """
    select c.*, (select spent_until from bucket b
                 where b.key = bucket_of(c.kind, c.name) and b.rated_in = c.rated_in) as spent_until
    from control c"""
"""Every pause and limit, with what was spent of its rate."""

_LIVE = "select *, claim >> 32 as claims, state::text as state from job where id = %s"
_ARCHIVED = "select *, claim >> 32 as claims, state::text as state from archive where id = %s"
_ATTEMPTS = """select *, claim >> 32 as claims, outcome::text as outcome from attempt
               where job_id = %s order by claim"""
