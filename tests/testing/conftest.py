"""The fixture under test, in the database of this xdist worker."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import pytest

from headway._api import apps
from tests.testing import shop


@pytest.fixture(scope="session")
def headway_dsn(dsn: str) -> str:
    return dsn


@pytest.fixture(autouse=True)
def only_the_shop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the apps of other tests of this process. A user's process has the apps of one project."""
    known = WeakKeyDictionary({shop.hw: apps._apps[shop.hw]})
    monkeypatch.setattr(apps, "_apps", known)
