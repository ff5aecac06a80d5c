"""Which files are trusted: those of this account and of root, unless every account may write to them."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path


def distrust(path: Path, status: os.stat_result, trusted: int | None = None) -> str | None:
    """Return why an open file is not trusted, or None if it is. `trusted` is one more account."""
    if sys.platform == "win32":
        return None
    accounts = (os.geteuid(), 0, trusted)
    # A link has an owner of its own, and both must be trusted.
    for owner in (status.st_uid, os.lstat(path).st_uid):
        if owner not in accounts:
            return (
                f"{path} belongs to {_name(owner)}, but this process runs as {_name(os.geteuid())}, and "
                f"settings decide where jobs go; if you trust it, run `chown {os.geteuid()} {path}`"
            )
    if stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_IWOTH:
        return (
            f"every account may write to {path}, and settings decide where jobs go; "
            f"check its content, then run `chmod o-w {path}`"
        )
    return None


def _name(user: int) -> str:
    import pwd  # imported here because Windows does not have it

    try:
        return f"{pwd.getpwuid(user).pw_name!r}"
    except KeyError:
        return f"user {user}"
