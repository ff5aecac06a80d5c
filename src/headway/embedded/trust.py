"""Checks that the server's directory belongs to this account alone.

Another account that could write to it could redirect this process to any file.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from headway.errors import EmbeddedUnavailable

_INSTEAD = "or set HEADWAY_LOCAL to another directory, or set HEADWAY_DATABASE_URL"
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has neither this flag nor an embedded server


def check_directory(path: Path) -> None:
    """Raise EmbeddedUnavailable unless `path` is a directory that belongs to this account alone.

    A link to such a directory is accepted if this account or root made it.
    """
    if path.is_symlink():
        _check_owner(path, path.lstat(), (os.geteuid(), 0))
    status = path.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise EmbeddedUnavailable(
            f"{path} is not a directory, but the embedded server needs to keep its data there; "
            f"move it away, {_INSTEAD}"
        )
    _check_owner(path, status, (os.geteuid(),))
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise EmbeddedUnavailable(
            f"other accounts may write to {path} (mode {stat.S_IMODE(status.st_mode):04o}); "
            f"check that its content is yours and run `chmod go-w {path}`, {_INSTEAD}"
        )


def check_data(path: Path) -> None:
    """Raise EmbeddedUnavailable if the data in `path` belongs to another account."""
    _check_owner(path, path.stat(), (os.geteuid(),))


def open_own(path: Path, flags: int) -> int:
    """Open a lock or a log. Create it if it is missing.

    Raise EmbeddedUnavailable if it is a link, or belongs to another account.
    """
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | _NO_LINK, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise EmbeddedUnavailable(
            f"{path} is a link, but locks and logs of the embedded server must be files; remove it"
        ) from None
    try:
        _check_owner(path, os.fstat(fd), (os.geteuid(),))
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_owner(path: Path, status: os.stat_result, trusted: tuple[int, ...]) -> None:
    if status.st_uid not in trusted:
        raise EmbeddedUnavailable(
            f"{path} belongs to {_name(status.st_uid)}, but this process runs as "
            f"{_name(os.geteuid())}; run as its owner, {_INSTEAD}"
        )


def _name(user: int) -> str:
    import pwd  # imported here because Windows does not have it

    try:
        return f"{pwd.getpwuid(user).pw_name!r}"
    except KeyError:
        return f"user {user}"
