"""B11: what waits for a lock says for whom."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headway import Context, Headway
from headway.errors import DatabaseUnavailable
from headway.store.connections.connect import Target, complete_dsn
from headway.store.connections.engine_connection import EngineConnection
from headway.store.statements import inspect
from tests.cli.conftest import Command
from tests.support import Running, eventually


@pytest.fixture
def culprit(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A session that locks something and goes for lunch."""
    with psycopg.connect(make_conninfo(dsn, application_name="lunch")) as conn:
        yield conn
        conn.rollback()


def _lock(culprit: psycopg.Connection[Any], schema: str) -> str:
    culprit.execute(f"lock table {schema}.job in access exclusive mode")
    return f"pid {culprit.info.backend_pid}, lunch, idle in transaction for"


@pytest.mark.parametrize(
    "words",
    [
        ("job", "list"),
        ("queue", "list"),
        ("job", "enqueue", "anything"),
        ("health",),
    ],
    ids=" ".join,
)
def test_b11_a_command_that_is_held_up_ends_and_names_the_session(
    headway: Command,
    culprit: psycopg.Connection[Any],
    schema: str,
    words: tuple[str, ...],
    capfd: pytest.CaptureFixture[str],
) -> None:
    named = _lock(culprit, schema)
    result = headway(*words, code=3)
    said = " ".join((result.stdout + result.stderr).split())
    assert named in said
    assert f"`lock table {schema}.job in access exclusive mode`" in said
    if words == ("health",):
        assert result.stderr == ""
        assert capfd.readouterr().err == "", "the driver has nothing to add"


async def test_b11_a_service_of_a_worker_that_gets_no_answer_names_the_session(
    culprit: psycopg.Connection[Any], dsn: str, schema: str
) -> None:
    named = _lock(culprit, schema)
    link = EngineConnection(Target(complete_dsn(dsn), schema), timeout=0.5)
    with pytest.raises(DatabaseUnavailable) as found:
        await link.run(inspect.queues(None))
    await link.close()
    assert str(found.value).startswith("no answer within 0.5 s; ")
    assert named in str(found.value)
    assert "DSN" not in str(found.value)


async def test_b11_explain_and_health_name_the_session_that_a_handler_waits_for(
    hw: Headway,
    start: Callable[..., Running],
    culprit: psycopg.Connection[Any],
    db: psycopg.Connection[Any],
    headway: Command,
) -> None:
    db.execute("create table orders (id int)")
    where = db.execute("select current_schema()").fetchone()
    assert where is not None

    @hw.task(transaction=True)
    async def charge(ctx: Context) -> None:
        await ctx.conn.execute(f"insert into {where[0]}.orders values (1)")

    culprit.execute(f"lock table {where[0]}.orders")
    start()
    job = await charge.enqueue()
    pid = f"pid {culprit.info.backend_pid}"

    def explained() -> str:
        return str(db.execute("select explain(%s)", [job.id]).fetchone())

    await eventually(lambda: pid in explained())
    assert f"waits for {pid} (lunch, idle in transaction for" in explained()
    assert "`lock table" in explained()

    async def health() -> bool:
        said = (await asyncio.to_thread(headway, "health")).stdout
        return f"for {pid}, lunch, idle in transaction" in " ".join(said.split())

    await eventually(health)
    culprit.rollback()
    await job.result(timeout="60s")


async def test_b11_a_worker_that_lost_its_lease_says_so_and_does_not_blame_the_dsn(
    hw: Headway,
    start: Callable[..., Running],
    culprit: psycopg.Connection[Any],
    schema: str,
    db: psycopg.Connection[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "headway.worker")

    @hw.task
    async def idle() -> None: ...

    start(lease="3s")
    await eventually(lambda: db.execute("select 1 from worker").fetchone())
    culprit.execute(f"select 1 from {schema}.worker for update")

    def said(words: str) -> bool:
        return any(words in record.getMessage() for record in caplog.records)

    await eventually(lambda: said("its lease"))
    culprit.rollback()
    await eventually(lambda: said("works again"))
    assert not said("DSN")
