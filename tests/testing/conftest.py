"""The fixture under test, in the database of this xdist worker."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def headway_dsn(dsn: str) -> str:
    return dsn
