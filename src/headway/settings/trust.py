"""Whose files count: those of this account and of root, unless everybody may write to them."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path


def distrust(path: Path, status: os.stat_result, trusted: int | None = None) -> str | None:
    """Return why an open file is not to be believed, none if it is. `trusted` is one more account."""
    if sys.platform == "win32":
        return None
    believed = (os.geteuid(), 0, trusted)
    for owner in (
        status.st_uid,
        os.lstat(path).st_uid,
    ):  # of a link both, what it is and what it names
        if owner not in believed:
            return (
                f"{path} belongs to {_name(owner)}, and this process runs as {_name(os.geteuid())}: "
                f"settings decide where jobs go; if you trust it, run `chown {os.geteuid()} {path}`"
            )
    if stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_IWOTH:
        return (
            f"every account may write to {path}: settings decide where jobs go; "
            f"read it, then run `chmod o-w {path}`"
        )
    return None


def _name(user: int) -> str:
    import pwd  # here: Windows has none

    try:
        return f"{pwd.getpwuid(user).pw_name!r}"
    except KeyError:
        return f"user {user}"
