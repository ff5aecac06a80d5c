"""The files of one server, and making its data."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from headway.embedded.binaries import Binaries
from headway.embedded.locks import Lock
from headway.embedded.places import Account
from headway.errors import EmbeddedUnavailable

PATIENCE = 60.0  # seconds for one step of a start; recovery after a crash can take that long


@dataclass(frozen=True)
class Home:
    """Names in the directory of the server. Another major version has other names."""

    root: Path
    major: int

    @property
    def data(self) -> Path:
        return self.root / f"pg{self.major}"

    @property
    def log(self) -> Path:
        return self.root / f"pg{self.major}.log"

    def lock(self, name: str) -> Path:
        return self.root / f"pg{self.major}.{name}.lock"


def data_directories(root: Path) -> list[Path]:
    """Return the data in a server's directory: one for each major version that has run there."""
    found = [path for path in root.glob("pg*") if re.fullmatch(r"pg\d+", path.name)]
    return sorted(path for path in found if path.is_dir())


def create_data(home: Home, binaries: Binaries, account: Account, lease: Lock) -> None:
    """Make `home.data` in one step: a name that exists is complete, whoever was killed when.

    `initdb` shares the watchdog's lock: if we are killed, it is waited for, and then cleared away.
    """
    for unfinished in home.root.glob(f"{home.data.name}.init-*"):
        shutil.rmtree(unfinished, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(prefix=f"{home.data.name}.init-", dir=home.root))
    try:
        account.own(draft)
        _initdb(draft, binaries, account, lease)
        draft.rename(home.data)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _initdb(data: Path, binaries: Binaries, account: Account, lease: Lock) -> None:
    done = subprocess.run(
        [
            *(binaries.bin / "initdb", "-D", data, "-U", "postgres"),
            *("--auth-local=trust", "--auth-host=reject"),
            *("-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"),
        ],
        cwd="/",
        env=environment() | {"TZ": "UTC"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        pass_fds=[lease.fd],
        user=account.user,
        group=account.group,
        extra_groups=account.extra_groups,
    )
    if done.returncode != 0:
        raise EmbeddedUnavailable(f"initdb failed in {data}:\n{done.stdout[-2000:].strip()}")


def environment() -> dict[str, str]:
    """For the server and its helpers. PG* variables would redirect them, and they outlive the
    first client, whose secrets are none of their business."""
    kept = {k: v for k, v in os.environ.items() if k == "PATH" or k.startswith(("LD_", "DYLD_"))}
    return kept | {"LC_ALL": "C"}
