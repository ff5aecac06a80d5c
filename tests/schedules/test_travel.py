"""A fleet that comes back after a long time finds days for which nothing is prepared."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from headway.store.faults import is_passing
from headway.store.statements import jobs
from tests.store.aside import Aside
from tests.store.store import NOW, Settled, Store, verdict


def test_a_job_that_ends_while_its_day_is_added_is_settled_when_that_is_tried_again(
    dsn: str, schema: str
) -> None:
    """Its row was on its way into the net when the partition was attached: the server refuses the row,
    but nothing is wrong with it."""
    store = Store(dsn, schema)
    try:
        claim = store.held(store.register())
        ended = jobs.finish(store.target, [Settled(claim, verdict("succeed"))], NOW)
        with psycopg.connect(dsn) as other:
            other.execute(f"set search_path = {schema}")  # type: ignore[arg-type]
            other.execute("select add_partitions(%s, 0)", (NOW,))
            meanwhile = Aside(store, ended).wait_until_it_waits()
        refusal = meanwhile.answer()
        assert isinstance(refusal, psycopg.errors.CheckViolation)
        assert is_passing(refusal)
        again = jobs.finish(store.target, [Settled(claim, verdict("succeed"))], NOW, careful=True)
        assert store.run(ended) == {claim.id: "locked"}, "it was locked since it was claimed"
        assert store.run(again) == {}
        assert store.states(claim.id) == ["succeeded"]
    finally:
        store.close()


def test_a_row_that_breaks_a_rule_is_refused_for_good(db: psycopg.Connection[Any]) -> None:
    query = """insert into schedule (name, task, spec, job, catch_up, most, overlap, since, done_until,
                                     created_at, changed_at)
               select 'a', 'b', '@daily', '{}', 'some', 1, 'allow', t, t, t, t from (select now()) n(t)"""
    with pytest.raises(psycopg.errors.CheckViolation) as refusal:
        db.execute(query)
    assert not is_passing(refusal.value)
