"""One schema, one login for each role and one for none; made once."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from headway.store import migrate
from tests.roles.stage import KINDS, STRANGER, Stage


@pytest.fixture(scope="package")
def stage(dsn: str) -> Iterator[Stage]:
    schema = f"hw_walk_{os.getpid()}"
    roles = {kind: sql.Identifier(f"{schema}_{kind}") for kind in KINDS}
    names = {kind: f"{schema}_{kind}_login" for kind in (*KINDS, STRANGER)}
    logins = {kind: sql.Identifier(name) for kind, name in names.items()}
    with psycopg.connect(dsn, autocommit=True) as conn:
        migrate.run_sync(dsn, schema, roles=True)
        for kind, login in logins.items():
            conn.execute(sql.SQL("create role {} login password 'walk'").format(login))
            if kind in roles:
                conn.execute(sql.SQL("grant {} to {}").format(roles[kind], login))
        places = {
            kind: make_conninfo(dsn, user=name, password="walk") for kind, name in names.items()
        }
        stage = Stage(dsn, schema, places)
        yield stage
        stage.close()
        conn.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(schema)))
        for role in (*logins.values(), *roles.values()):
            conn.execute(sql.SQL("drop owned by {}").format(role))
            conn.execute(sql.SQL("drop role {}").format(role))
