"""A plan made when nothing waited is a good one when a million do (G9).

Statements are prepared once for each connection, with one plan for all parameters. A table that was
vacuumed and analyzed in a quiet hour has one page, and to read all of it looks as good as any index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from headway.core.verdict import Kind
from headway.store.documents import Settled
from headway.store.rows import Claim
from headway.store.statement import Statement, text
from headway.store.statements import jobs
from tests.store.store import Store, ask, engine_connection, shares, verdict

_MANY = 5_000
_READ = """
select sum(pg_stat_get_xact_tuples_fetched(c.oid) + pg_stat_get_xact_tuples_returned(c.oid))
from pg_class c
where c.oid = to_regclass(%(table)s)
   or c.oid in (select indexrelid from pg_index where indrelid = to_regclass(%(table)s))
"""


@pytest.fixture
def engine(store: Store) -> Iterator[psycopg.Connection[Any]]:
    with closing(engine_connection(store.dsn)) as conn:
        yield conn


About = Callable[[Store, Claim], Statement[Any]]


def _settled(kind: Kind, **fields: Any) -> About:
    def statement(store: Store, claim: Claim) -> Statement[Any]:
        settled = [Settled(claim, verdict(kind, **fields))]
        if kind == "succeed":
            return jobs.finish(store.target, settled, store.now)
        if kind == "advance":
            return jobs.advance(store.target, settled, store.now)
        return jobs.requeue(store.target, 0, settled, store.now)

    return statement


_ABOUT: dict[str, About] = {
    "finish": _settled("succeed"),
    "advance": _settled("advance"),
    "requeue": _settled("retry", delay=60.0),
    "held": lambda store, claim: jobs.held([claim]),
    "progress": lambda store, claim: jobs.progress([(claim, {"percent": 1})]),
    "cancel": lambda store, claim: jobs.cancel(store.target, [claim.id], store.now),
}


@pytest.mark.parametrize("about", _ABOUT.values(), ids=_ABOUT)
def test_g9_a_plan_of_a_quiet_hour_does_not_walk_a_full_table(
    store: Store, worker: int, engine: psycopg.Connection[Any], about: About
) -> None:
    def run(statement: Statement[Any]) -> Any:
        query = text(statement.name, store.schema)
        return statement.read(engine.execute(query, statement.params, prepare=True).fetchall())

    def rows_read() -> int:
        row = engine.execute(_READ, {"table": f"{store.schema}.job"}).fetchone()
        assert row is not None
        return int(row[0])

    def read_for_one() -> int:
        store.enqueue()
        (claim,) = run(jobs.claim(worker, shares([ask()]), store.now))
        with engine.transaction():
            before = rows_read()
            run(about(store, claim))
            return rows_read() - before

    store.enqueue(delay=60.0)
    store.eyes.execute("vacuum analyze job")
    read_for_one()
    store.eyes.execute(
        "insert into job (id, run_at, created_at, max_attempts, state, queue, task, input) "
        "select gen_random_uuid(), %s, %s, 1, 's', 'other', 'other', '{}' from generate_series(1, %s)",
        [store.now, store.now, _MANY],
    )
    assert 0 < read_for_one() < 100
