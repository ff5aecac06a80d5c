"""The database as the walk of a role finds it, made by the owner, and whether it has changed."""

from __future__ import annotations

from itertools import count
from typing import Any
from uuid import UUID

from headway import Headway
from headway.core.clock import monotonic
from headway.pull.job import PulledJob
from headway.pull.stream import Pull
from tests.sql.hand import TABLES, Hand

KINDS = ("producer", "reader", "operator", "worker")
STRANGER = "stranger"
"""A login that is a member of none of the roles."""


class Stage:
    """The owner's side of one schema. Every thing that it makes has a name of its own."""

    def __init__(self, dsn: str, schema: str, logins: dict[str, str]) -> None:
        self.dsn = dsn
        self.schema = schema
        self.logins = logins
        """The DSN of each kind of login."""
        self.owner = define(Headway(dsn, schema=schema))
        self.hand = Hand(dsn, schema)
        self._numbers = count()

    def close(self) -> None:
        self.hand.close()
        self.owner.close_sync()

    def app(self, kind: str) -> Headway:
        return define(Headway(self.logins[kind], schema=self.schema))

    def name(self) -> str:
        """Return a name that nothing has."""
        return f"walk{next(self._numbers)}"

    def waiting(self, queue: str | None = None) -> UUID:
        return self.hand.enqueue(queue=queue or self.name())

    def follow_up(self) -> UUID:
        """Return the follow-up of a group whose member waits."""
        tasks = self.owner.tasks
        return self.owner.group([tasks["greet"].call()]).then_sync(tasks["tour"]).id

    def busy_queue(self) -> str:
        """Return a queue with a job that waits."""
        queue = self.name()
        self.waiting(queue)
        return queue

    def failed(self) -> UUID:
        return self._ended("fail", "boom", again=False)

    def succeeded(self) -> UUID:
        return self._ended("complete", {"n": 1})

    def _ended(self, how: str, *given: Any, **named: Any) -> UUID:
        queue = self.busy_queue()
        (claimed,) = self.hand.claim(queue)
        assert self.hand.settle(how, claimed, *given, **named)
        return claimed["id"]

    def schedule(self) -> str:
        name = self.name()
        self.owner.schedules.put_sync(name, "greet", "@yearly")
        return name

    def paused_schedule(self) -> str:
        name = self.schedule()
        self.owner.schedules.pause_sync(name)
        return name

    def paused(self) -> str:
        queue = self.name()
        self.hand.call("pause", queue)
        return queue

    def limited(self) -> str:
        queue = self.name()
        self.hand.call("set_limit", queue, 3)
        return queue

    def alive(self) -> int:
        """Return the id of a worker that lives for an hour."""
        query = (
            "insert into worker (name, version, slots, queues, tasks, started_at, seen_at, expires_at) "
            "values ('walker', '0', 1, '[]', '[]', now(), now(), now() + interval '1 hour') "
            "returning id"
        )
        return self.hand.value(query)

    def pulled(self, hw: Headway) -> PulledJob:
        """Return a claimed job in the hands of an app."""
        pull = Pull(queue=self.busy_queue())
        claimed = self.owner._session.client.run_sync(pull.statement())
        (job,) = pull.claimed(hw._session, claimed, monotonic())
        return job

    def contents(self) -> dict[str, str]:
        """Return what is in each table."""
        tables = (*TABLES, "schedule", "bucket", "start", "migration", "definition")
        query = " union all ".join(
            f"select '{table}' as name, "
            f"md5(coalesce(string_agg(t::text, chr(10) order by t::text), '')) as rows from {table} t"
            for table in tables
        )
        return {row["name"]: row["rows"] for row in self.hand.rows(query)}


def define(hw: Headway) -> Headway:
    """The tasks of every app on the stage."""

    @hw.task(name="greet", queue="walk")
    async def greet() -> None:
        """Does nothing."""

    tour = hw.flow("tour", queue="walk")

    @tour.step
    async def first() -> None:
        """Does nothing."""

    return hw
