"""Which of Debian's packages the cluster takes, and where their programs are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = {
    "etcd": "etcd-server",
    "patroni": "patroni",
    "patronictl": "patroni",
    "haproxy": "haproxy",
    "pgbouncer": "pgbouncer",
}
_POSTGRES = Path("/usr/lib/postgresql")
_PLACES = os.pathsep.join(("/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"))


class Missing(Exception):
    """A program that is needed is not there."""


def program(name: str) -> str:
    """Return the path of a program. Raise `Missing` if it is not installed."""
    found = shutil.which(name, path=_PLACES)
    if found is None:
        raise Missing(f"{name} is not installed; run: apt-get install {PACKAGES[name]}")
    return found


def postgres_bin() -> Path:
    """Return the directory with the programs of the newest PostgreSQL."""
    found = sorted(
        (path for path in _POSTGRES.glob("*/bin") if (path / "initdb").exists()),
        key=lambda path: float(path.parent.name),
    )
    if not found:
        raise Missing("PostgreSQL is not installed; run: apt-get install postgresql")
    return found[-1]


def ensure() -> None:
    """Install what is missing. Raise `Missing` if we are not root."""
    wanted = {package for name, package in PACKAGES.items() if not shutil.which(name, path=_PLACES)}
    if not any(_POSTGRES.glob("*/bin/initdb")):
        wanted.add("postgresql")
    if not wanted:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *sorted(wanted)]
    if os.geteuid() != 0:
        raise Missing(f"programs are missing; run as root: {' '.join(command)}")
    print(f"ha: installing {', '.join(sorted(wanted))}", file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Missing(f"apt-get failed: {(done.stderr or done.stdout).strip()[-500:]}")
