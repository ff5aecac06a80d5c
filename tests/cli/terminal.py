"""A command whose standard input is a terminal, with someone who types."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from tests.support import DEADLINE

_ROOT = Path(__file__).parents[2]


def headway_at_terminal(
    *words: object, dsn: str, schema: str, typed: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs `headway WORDS...`, types, and waits for its end. Only its input is a terminal."""
    command = [sys.executable, "-m", "headway", *map(str, words), "--dsn", dsn, "--schema", schema]
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed.encode())  # the terminal keeps it until it is read
        return subprocess.run(
            command,
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE,
            cwd=_ROOT,
            env=os.environ | {"PYTHONPATH": str(_ROOT), "TEST_SCHEMA": schema, **env},
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
