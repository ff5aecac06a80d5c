"""The pytest plugin of Headway: its fixtures. It imports Headway only when a test uses one.

It is not in the package, because importing any module of a package imports the package.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headway.store.spare_schemas import SpareSchemas
    from headway.testing import HeadwayFixture, InlineFixture

_VARIABLE = "HEADWAY_TEST_DSN"
_SETTINGS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
"""The data of tests need not survive a crash of the machine."""


@pytest.fixture(scope="session")
def headway_dsn(pytestconfig: pytest.Config) -> Iterator[str]:
    """The database for jobs: $HEADWAY_TEST_DSN, else an embedded server. Override it to use your own."""
    if given := os.environ.get(_VARIABLE):
        yield given
        return
    from headway import embedded

    with embedded.start(_directory(pytestconfig), settings=_SETTINGS) as server:
        yield server.dsn


@pytest.fixture(scope="session")
def _headway_schemas(headway_dsn: str) -> Iterator[SpareSchemas]:
    from headway.store.spare_schemas import SpareSchemas

    schemas = SpareSchemas(headway_dsn)
    yield schemas
    schemas.close()


@pytest.fixture
def headway(_headway_schemas: SpareSchemas) -> Iterator[HeadwayFixture]:
    """Every app of this process uses an empty schema during the test, and a clock that the test moves."""
    from headway.testing import HeadwayFixture

    with HeadwayFixture(_headway_schemas).in_use() as fixture:
        yield fixture


@pytest.fixture
def headway_inline() -> Iterator[InlineFixture]:
    """Every app of this process keeps its jobs in memory during the test. There is no database."""
    from headway.testing import InlineFixture

    with InlineFixture().in_use() as fixture:
        yield fixture


def _directory(config: pytest.Config) -> Path:
    """Return where the embedded server is kept, so that the next run starts it quickly."""
    if config.pluginmanager.has_plugin("cacheprovider"):
        return config.cache.mkdir("headway")  # type: ignore[union-attr, unused-ignore]
    return config.rootpath / ".headway" / "test"
