"""The files of one server, and the creation of its data."""

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

STEP_TIMEOUT = 60.0  # seconds for one step of a start; recovery after a crash can take that long


@dataclass(frozen=True)
class Home:
    """File names in the server's directory. Each major version has its own."""

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
    """Return the data directories of a server: one for each major version that has run there."""
    found = [path for path in root.glob("pg*") if re.fullmatch(r"pg\d+", path.name)]
    return sorted(path for path in found if path.is_dir())


def create_data(home: Home, binaries: Binaries, account: Account, lease: Lock) -> None:
    """Create `home.data` in one step: if the name exists, the data is complete, even after a kill.

    `initdb` shares the watchdog's lock. If this process is killed, the next start waits for `initdb` to
    end and then removes its files.
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
        timeout=STEP_TIMEOUT,
        pass_fds=[lease.fd],
        user=account.user,
        group=account.group,
        extra_groups=account.extra_groups,
    )
    if done.returncode != 0:
        raise EmbeddedUnavailable(f"initdb failed in {data}:\n{done.stdout[-2000:].strip()}")


def environment() -> dict[str, str]:
    """Return the environment of the server and the watchdog.

    PG* variables would redirect them. They outlive the first client and do not need its secrets.
    """
    kept = {k: v for k, v in os.environ.items() if k == "PATH" or k.startswith(("LD_", "DYLD_"))}
    return kept | {"LC_ALL": "C"}
