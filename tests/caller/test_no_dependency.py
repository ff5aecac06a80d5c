"""Headway needs and loads none of the libraries whose connections callers may pass."""

from __future__ import annotations

import subprocess
import sys

from tests.support import DEADLINE

_PROGRAM = """
import sys
import headway
from headway.errors import ConfigError
from headway.store import caller

for way in (caller.wrap, caller.wrap_async):
    for conn in (object(), "default"):
        try:
            way(conn)
        except ConfigError as error:
            print(error)
loaded = {name.partition(".")[0] for name in sys.modules}
print(loaded & {"asyncpg", "sqlalchemy", "django", "psycopg2", "greenlet"})
"""


def test_neither_importing_headway_nor_looking_at_a_connection_loads_a_library() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=DEADLINE * 4
    )
    assert ran.returncode == 0, ran.stderr
    *refusals, loaded = ran.stdout.splitlines()
    assert loaded == "set()"
    assert len(refusals) == 4
    assert "this program does not use" in refusals[1]
