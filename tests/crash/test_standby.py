"""Servers that only read: refused when met at the start, waited out when met in a failover."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from headway import Headway
from headway.errors import StandbyRefused
from tests.crash.count import finished, registered, unfinished
from tests.crash.producers import producing
from tests.crash.proxy import Proxy
from tests.crash.server import OwnServer
from tests.crash.tasks import register
from tests.support import eventually, eventually_sync


@pytest.fixture
def dsn(own_server: OwnServer) -> str:
    """These tests have a server to themselves."""
    return own_server.dsn


@pytest.fixture
def standby(own_server: OwnServer, place: Path) -> Iterator[OwnServer]:
    """A second server that follows the first; a commit is answered when both have it."""
    home = place / "standby"
    home.mkdir(mode=0o755)
    server = OwnServer(home)
    own_server.account.own(home)
    source = own_server.dsn.split()[0].removeprefix("host=")
    to = str(server.data)
    own_server.tool("pg_basebackup", "-h", source, "-p", "5432", "-U", "postgres", "-D", to, "-R")
    server.start()
    with psycopg.connect(own_server.dsn, autocommit=True) as conn:
        conn.execute("alter system set synchronous_standby_names = '*'")
        conn.execute("select pg_reload_conf()")
        in_step = "select 1 from pg_stat_replication where sync_state = 'sync'"
        eventually_sync(lambda: conn.execute(in_step).fetchone())
    yield server
    server.stop()


@pytest.mark.slow
async def test_a_standby_is_refused_by_the_app_and_by_the_worker(
    app: Headway, own_server: OwnServer, schema: str, dsn: str, worker
) -> None:
    await asyncio.to_thread(own_server.stop, signal.SIGINT)
    (own_server.data / "standby.signal").touch()
    await asyncio.to_thread(own_server.start)
    try:
        with pytest.raises(StandbyRefused, match=r"standby.*primary"):
            await app.open()
        with pytest.raises(StandbyRefused, match=r"standby.*primary"):
            await app.tasks["echo"].enqueue(1)
        with pytest.raises(StandbyRefused, match=r"standby.*primary"):
            app.tasks["echo"].enqueue_sync(1)
        refused = worker()
        assert refused.wait() == 3
        assert "the server is a standby" in refused.output()
        assert "Traceback" not in refused.output()
    finally:
        (own_server.data / "standby.signal").unlink()
        await asyncio.to_thread(own_server.restart, signal.SIGINT)


@pytest.mark.slow
async def test_g3_a_failover_under_load_loses_and_doubles_nothing(
    own_server: OwnServer, standby: OwnServer, schema: str, worker
) -> None:
    """The primary dies; its address leads to the standby, which only reads for a while."""
    with Proxy(own_server.dsn) as proxy:
        app = register(Headway(proxy.dsn, schema=schema))
        workers = [worker(dsn=proxy.dsn, SIDE_DSN=proxy.dsn) for _ in range(2)]
        async with producing(app, 4) as producers:
            with _connect(own_server.dsn, schema) as db:
                await eventually(lambda: registered(db) == 2 and finished(db) > 100)
            await asyncio.to_thread(own_server.stop, signal.SIGQUIT)
            proxy.redirect(standby.dsn)
            await eventually(lambda: "standby" in workers[0].output())
            with _connect(standby.dsn, schema) as db:
                db.execute("select pg_promote()")
                done = finished(db)
                await eventually(lambda: finished(db) > done + 100)
        with _connect(standby.dsn, schema) as db:
            await eventually(lambda: unfinished(db) == 0)
            producers.assert_kept(db)
        assert [each.process.poll() for each in workers] == [None, None]
        assert not any("Traceback" in each.output() for each in workers)
        await app.close()
    # For the clean-up, which nobody follows any more.
    await asyncio.to_thread(own_server.start, synchronous_standby_names="")


def _connect(dsn: str, schema: str) -> psycopg.Connection[Any]:
    conn = psycopg.connect(dsn, autocommit=True)
    conn.execute(sql.SQL("set search_path = {}").format(sql.Identifier(schema)))
    return conn
