"""B3 with servers that come and go: which one a connection leads to."""

from __future__ import annotations

import asyncio
import signal

import psycopg
import pytest

from headway import Headway
from headway.errors import ConfigError
from headway.store import migrate
from tests.crash.server import OwnServer


@pytest.fixture
def dsn(own_server: OwnServer) -> str:
    """These tests have a server to themselves."""
    return own_server.dsn


@pytest.mark.slow
async def test_b3_a_restart_of_the_server_does_not_make_it_another(
    app: Headway, own_server: OwnServer, dsn: str
) -> None:
    echo = app.tasks["echo"]
    for _ in range(2):
        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            assert (await echo.using(conn=conn).enqueue(1)).created
        await asyncio.to_thread(own_server.restart, signal.SIGINT)


@pytest.mark.slow
def test_b3_a_database_of_the_same_name_on_another_server_is_refused(
    app: Headway, schema: str, server_dsn: str
) -> None:
    """The shared server of the tests has a database of this name, too."""
    migrate.run_sync(server_dsn, schema)
    try:
        with psycopg.connect(server_dsn) as conn:
            assert conn.info.dbname == "postgres"
            with pytest.raises(ConfigError, match=r"'postgres' .*another server"):
                app.tasks["echo"].using(conn=conn).enqueue_sync(1)
    finally:
        with psycopg.connect(server_dsn) as conn:
            conn.execute(f'drop schema "{schema}" cascade')  # type: ignore[arg-type]
