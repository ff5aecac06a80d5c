"""One embedded server for the whole run, a database per xdist worker, a schema per test.

Fixtures are plugins by concern; this file names them. README.md says where a new test goes.
"""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says nothing on a machine that is shared.
settings.register_profile("headway", deadline=None)
settings.load_profile("headway")

pytest_plugins = ["tests.fixtures.server", "tests.fixtures.app", "tests.fixtures.processes"]
