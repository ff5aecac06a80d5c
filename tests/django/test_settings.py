"""An address from the options of a database in Django's settings."""

from __future__ import annotations

import psycopg
import pytest

from headway.errors import ConfigError
from headway.store.caller.django import dsn_of
from tests.caller.on_django import configured


def test_an_alias_gives_the_address_of_its_database(dsn: str) -> None:
    with configured(dsn):
        found = dsn_of("default")
    keys = ("host", "port", "dbname", "user")
    given, read = (psycopg.conninfo.conninfo_to_dict(each) for each in (dsn, found))
    assert {key: read[key] for key in keys} == {key: str(given[key]) for key in keys}


def test_a_database_that_is_not_postgresql_is_refused(dsn: str) -> None:
    with configured(dsn), pytest.raises(ConfigError, match="sqlite"):
        dsn_of("elsewhere")
