"""The database's own record of starts and ends, written by triggers in the transactions that make it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

_MADE = """
create table started (
  place bigint generated always as identity, at timestamptz, id uuid, claim bigint, attempt integer,
  worker_id bigint, queue text, handler text, key text, priority integer);
create table ended (
  place bigint generated always as identity, id uuid, claim bigint, lived boolean,
  given_back boolean default false);
create table let_in (at timestamptz, id uuid, key text, after bigint);
create table counted (
  place bigint generated always as identity, kind text, name text, running bigint, most integer);

create function note_starts() returns trigger language plpgsql as $$
begin
  insert into {0}.started (at, id, claim, attempt, worker_id, queue, handler, key, priority)
  select n.claimed_at, n.id, n.claim, n.attempt, n.worker_id, n.queue,
         case n.step when '' then n.task else n.task || '/' || n.step end, n.key, n.priority
  from news n join olds o using (id) where n.state = 'x' and o.state <> 'x'
  order by n.priority desc, n.seq;
  insert into {0}.let_in
  select now(), n.id, n.key, (select coalesce(max(place), 0) from {0}.started)
  from news n join olds o using (id) where n.state = 'r' and o.state = 'b';
  -- Only a return keeps its place: it has not run, and its token was given back.
  insert into {0}.ended (id, claim, lived, given_back)
  select o.id, o.claim, true, n.seq = o.seq from news n join olds o using (id)
  where o.state = 'x' and n.state <> 'x';
  -- What runs now, as this transaction and everyone who has committed made it.
  insert into {0}.counted (kind, name, running, most)
  select s.kind, s.name, count(*), min(c.concurrency)
  from (
    select distinct kind, name from news n join olds o using (id), lateral (values ('queue', n.queue),
      ('task', case n.step when '' then n.task else n.task || '/' || n.step end),
      ('key', n.key)) v(kind, name)
    where n.state = 'x' and o.state <> 'x' and name is not null) s
  join {0}.job j on j.state = 'x' and case s.kind when 'queue' then j.queue when 'key' then j.key
    else case j.step when '' then j.task else j.task || '/' || j.step end end = s.name
  left join {0}.control c on c.kind = s.kind and c.name = s.name
  group by 1, 2;
  return null;
end $$;
create function note_ends() returns trigger language plpgsql as $$
begin
  insert into {0}.ended (id, claim, lived) select id, claim, false from olds where state = 'x';
  return null;
end $$;
create trigger note_starts after update on job referencing old table as olds new table as news
  for each statement execute function note_starts();
create trigger note_ends after delete on job referencing old table as olds
  for each statement execute function note_ends();
"""


class Start(NamedTuple):
    at: float
    """The moment of the claim, by the database's clock."""
    key: str | None
    handler: str
    worker: int
    attempt: int
    priority: int


class Record:
    """Jobs that started and ended under the test's schema."""

    def __init__(self, db: psycopg.Connection[Any], schema: str) -> None:
        self._db, self._schema = db, schema
        db.execute(_MADE.format(schema))

    def starts(self, name: str | None = None, *, ran: bool = False) -> list[Start]:
        """In their order, of everything or of what is under this queue, handler or key. `ran` leaves out
        those that went back without having run."""
        query = """select extract(epoch from at)::float8, key, handler, worker_id, attempt, priority
                   from started s
                   where (%s::text is null or %s in (queue, handler, key))
                     and not (%s and exists (select 1 from ended e
                                             where e.id = s.id and e.claim = s.claim and given_back))
                   order by place"""
        return [Start(*row) for row in self._db.execute(query, (name, name, ran))]

    def let_in(self, key: str) -> list[float]:
        """The moments at which jobs of a key took room, by the database's clock."""
        query = "select extract(epoch from at)::float8 from let_in where key = %s order by 1"
        return [at for (at,) in self._db.execute(query, [key])]

    def age_of_let_in(self, key: str) -> float:
        """Seconds since the last job of a key took room."""
        query = """select coalesce(extract(epoch from clock_timestamp() - max(at)), 0)::float8
                   from let_in where key = %s"""
        ((age,),) = self._db.execute(query, [key]).fetchall()
        return age

    def passed_by(self, job_id: UUID) -> int:
        """Return how many other jobs started between a job's admission and its own start."""
        query = "select s.place - l.after - 1 from started s join let_in l using (id) where id = %s"
        ((count,),) = self._db.execute(query, [job_id]).fetchall()
        return count

    def most_at_once(self, kind: str) -> dict[str, int]:
        """Of each queue, task or key: how many ran at once, as each claim left it."""
        query = "select name, max(running)::int from counted where kind = %s group by 1"
        return dict(self._db.execute(query, [kind]).fetchall())

    def over(self) -> list[Any]:
        """The claims that left more running under a queue or task than its limit said at the time."""
        query = "select kind, name, running, most from counted where running > most"
        return self._db.execute(query).fetchall()

    @contextmanager
    def between_claims(self, kind: str, name: str) -> Iterator[None]:
        """Wait for the claims under way, and keep new ones away while this is held.

        A limit that is set here applies to every claim that `over` judges by it. One that is set at any
        other time does not apply to the claims that have begun."""
        mark = [f'"{self._schema}".limit {kind} {name}']
        self._db.execute("select pg_advisory_lock(hashtextextended(%s, 0))", mark)
        try:
            yield
        finally:
            self._db.execute("select pg_advisory_unlock(hashtextextended(%s, 0))", mark)

    def running(self, *, alive: bool = False) -> int:
        """How many run now; `alive` leaves out those of workers whose lease has run out."""
        query = "select count(*) from job j join worker w on w.id = j.worker_id"
        lives = " where w.expires_at > clock_timestamp()" if alive else ""
        return self._one(query + lives)

    def busy(self) -> set[int]:
        """The processes whose jobs run, by the names of their workers."""
        query = (
            "select w.name from worker w where exists (select from job j where j.worker_id = w.id)"
        )
        return {int(name.rpartition(":")[2]) for (name,) in self._db.execute(query)}

    def left(self) -> int:
        """How many jobs live."""
        return self._one("select count(*) from job")

    def assert_each_ended_once(self, jobs: int) -> None:
        """Every claim came to one end, every job too, and nothing is left."""
        assert self.left() == 0
        assert self._one("select count(*) from archive where state = 'd'") == jobs
        assert self._one("select count(*) from archive") == jobs
        assert self._one("select count(*) from ended where not lived") == jobs
        query = "select id, claim from started except select id, claim from ended"
        assert self._db.execute(query).fetchall() == []
        twice = Counter(self._db.execute("select id, claim from ended").fetchall())
        assert set(twice.values()) == {1}

    def _one(self, query: str) -> int:
        row = self._db.execute(query).fetchone()  # type: ignore[arg-type]
        assert row is not None
        return row[0]


def assert_within(moments: list[float], rate: float, burst: int) -> None:
    """In every window no more than a burst and what it earns; a microsecond is the clock's."""
    ordered = sorted(moments)
    for first in range(len(ordered)):
        for last in range(first, len(ordered)):
            earned = burst + rate * (ordered[last] - ordered[first])
            assert last - first + 1 <= earned + rate * 1e-5 + 1e-5, (first, last)
