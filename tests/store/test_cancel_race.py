"""A job that changes at the very moment in which it is cancelled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headway.store.statement import text
from headway.store.statements import jobs
from tests.store.store import Store, engine_connection
from tests.support import eventually_sync

_GATE = 4711
_WAITING = f"select 1 from pg_locks where locktype = 'advisory' and not granted and objid = {_GATE}"


def _promote(store: Store) -> None:
    store.run(jobs.promote(store.target, None, 9, store.now))


def _admit(store: Store) -> None:
    store.admit("k")


@pytest.mark.parametrize(
    ("fields", "change"),
    [({"delay": 5}, _promote), ({"key": "k"}, _admit)],
    ids=["promoted", "admitted"],
)
def test_a_job_that_is_promoted_or_admitted_meanwhile_is_cancelled_all_the_same(
    store: Store, fields: dict[str, Any], change: Any
) -> None:
    """The statement waits at a gate, with its snapshot, while the row changes. Its new version is not
    seen: a request is left, and the leader cancels the job. It used to be found by nobody."""
    job_id = store.enqueue(**fields)
    store.advance(5)
    cancel = jobs.cancel(store.target, [job_id], store.now)
    query = text(cancel.name, store.schema)
    assert query.count("as given(id)") == 1
    gate = f"as given(id), (select pg_advisory_xact_lock({_GATE})) gate"
    gated = query.replace("as given(id)", gate)

    def run() -> dict[str, str]:
        with engine_connection(store.dsn) as conn:
            return cancel.read(conn.execute(gated, cancel.params).fetchall())  # type: ignore[arg-type]

    with ThreadPoolExecutor(1) as thread:
        store.eyes.execute("select pg_advisory_lock(%s)", (_GATE,))
        cancelling = thread.submit(run)
        eventually_sync(lambda: store.rows(_WAITING))
        change(store)
        store.eyes.execute("select pg_advisory_unlock(%s)", (_GATE,))
        assert cancelling.result() == {str(job_id): "asked"}
    assert store.states(job_id) == ["ready"]
    assert store.cancel_asked() == 1
    assert store.states(job_id) == ["cancelled"]
