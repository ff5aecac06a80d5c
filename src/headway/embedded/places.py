"""The account that runs the server, and its directories. Root needs more care than a user."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from headway.embedded.trust import check_data, check_directory
from headway.errors import EmbeddedUnavailable

# Directories of root that every account can reach. Not /var/tmp: it is emptied after some weeks.
STATE = Path("/var/lib/headway")
CACHE = Path("/var/cache/headway")
# Fixed, and not $TMPDIR: processes with different environments must agree on it, and the path of a
# socket has at most 107 bytes (103 on macOS).
SOCKETS = Path("/tmp")


@dataclass(frozen=True)
class Account:
    """The account of the server, as arguments of `subprocess`. None stands for the current account."""

    user: int | None = None
    group: int | None = None

    @property
    def extra_groups(self) -> list[int] | None:
        return None if self.user is None else []

    @property
    def arguments(self) -> list[str]:
        return ["" if number is None else str(number) for number in (self.user, self.group)]

    def reaches(self, path: Path) -> bool:
        """Return whether this account may enter every directory above `path`, and enter or execute it."""
        return self.user is None or all(self._may_enter(each) for each in (path, *path.parents))

    def _may_enter(self, path: Path) -> bool:
        status = path.stat()
        if status.st_uid == self.user:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid == self.group:
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)

    def own(self, path: Path) -> None:
        if self.user is not None and self.group is not None:
            os.chown(path, self.user, self.group)


def choose_account(data: Path) -> Account:
    """Return the account of the server on `data`. Raise EmbeddedUnavailable if it cannot be used."""
    if os.geteuid() != 0:
        if data.exists():
            check_data(data)
        return Account()
    if data.exists() and data.stat().st_uid != 0:
        return Account(data.stat().st_uid, data.stat().st_gid)
    import pwd  # imported here because Windows does not have it

    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        return Account(65534, 65534)
    return Account(nobody.pw_uid, nobody.pw_gid)


def make_home(root: Path, major: int) -> Path:
    """Return the directory of all files of the server of `root`: `root` itself, or its link's target."""
    root.parent.mkdir(parents=True, exist_ok=True)
    made = make_directory(root, 0o711 if os.geteuid() == 0 else 0o700)
    check_directory(root)
    if made:
        with open(root / ".gitignore", "x") as file:
            file.write("*\n")
    root = root.resolve()
    data, link = root / f"pg{major}", root / "elsewhere"
    if os.geteuid() != 0 or data.exists():
        return root
    if not link.is_symlink():
        if choose_account(data).reaches(root):
            return root
        # A random name, not one made from the path: a user who deletes ./.headway wants to start over.
        project = re.sub(r"[^A-Za-z0-9_-]", "_", root.parent.name)[:40]
        home = Path(tempfile.mkdtemp(prefix=f"{project}-", dir=make_common(STATE)))
        try:
            link.symlink_to(home)
        except OSError as error:
            home.rmdir()
            if not isinstance(error, FileExistsError):  # else another process was faster
                raise
    home = link.resolve()
    check_directory(home)
    # A link that a user made may lead anywhere, so nothing is changed there.
    return make_common(home) if home.parent == STATE.resolve() else home


def make_directory(path: Path, mode: int) -> bool:
    """Create `path` with exactly `mode`, whatever the umask. Return false if it already exists."""
    try:
        path.mkdir(0o700)
    except FileExistsError:
        return False
    made = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchmod(made, mode)
    finally:
        os.close(made)
    return True


def make_common(place: Path) -> Path:
    """Create `place`, a directory of root's that every account may enter, and return it."""
    place.mkdir(parents=True, exist_ok=True)
    place.chmod(0o755)  # each time: the process that created it may have been killed before this
    return place


def socket_directory(data: Path, guard_fd: int, account: Account) -> Path:
    """Return the socket directory of the server on `data`: the same at each start, and hard to guess.

    The random part is in the guard file, so it lives as long as the directory. The name also depends on
    the path, so a copied directory does not use the socket of the original.
    """
    token = os.pread(guard_fd, 64, 0)
    if not token:
        token = secrets.token_hex(16).encode()
        os.pwrite(guard_fd, token, 0)
    name = hashlib.sha256(bytes(data) + b"\0" + token).hexdigest()[:16]
    place = SOCKETS / f"headway-{os.geteuid()}-{name}"
    make_directory(place, 0o700)
    status = place.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (os.geteuid(), account.user):
        raise EmbeddedUnavailable(
            f"{place} belongs to another account or is not a directory; remove it and try again"
        )
    if account.user is not None and status.st_uid != account.user:
        os.chown(place, account.user, 0)
        place.chmod(0o750)  # the group is root's, so root may enter even without CAP_DAC_OVERRIDE
    return place
