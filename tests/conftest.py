"""One embedded server for the whole run, a database per xdist worker, a schema per test.

Fixtures are plugins by concern; this file only names them.
"""

pytest_plugins = ["tests.fixtures.server", "tests.fixtures.app", "tests.fixtures.processes"]
