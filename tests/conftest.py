"""One embedded server for the whole run, a database per xdist worker, a schema per test.

Fixtures are plugins by concern; this file names them, and says which folders are slow as a whole.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says nothing on a machine that is shared.
settings.register_profile("headway", deadline=None)
settings.load_profile("headway")

pytest_plugins = ["tests.fixtures.server", "tests.fixtures.app", "tests.fixtures.processes"]

_HERE = Path(__file__).parent
_SLOW = {
    # These start processes, servers or type checkers of their own, test by test.
    "embedded",
    "crash",
    "packaging",
    "typing",
    "examples",
    "reference",
    "cli",
    "engine/test_isolation.py",
    "engine/test_isolation_faults.py",
    "engine/test_processes.py",
    "settings/test_apps.py",
    # Large payloads, many examples, many starts and stops.
    "core/test_cron_against_oracle.py",
    "engine/test_large.py",
    "engine/test_lifecycle.py",
    # The fast run has tests of every layer without these.
    "batches",
    "borrowed",
    "endings",
    "failures",
    "flows",
    "health",
    "interleave",
    "keys",
    "limits",
    "metrics",
    "model",
    "pull",
    "queues",
    "roles",
    "schedules",
    "scripted",
    "sql",
    "transactions",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        place = item.path.relative_to(_HERE)
        if place.parts[0] in _SLOW or place.as_posix() in _SLOW:
            item.add_marker(pytest.mark.slow)
