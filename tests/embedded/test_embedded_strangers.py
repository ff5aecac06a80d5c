"""S8: directories, links and pid files that another account has planted. S21, S23, S24: other traps."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from headway.embedded import find_binaries, places, start
from headway.embedded.server import log
from headway.errors import EmbeddedUnavailable

pytestmark = [pytest.mark.embedded_only, pytest.mark.timeout(60)]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes accounts of others")

ATTACKER = 12345
NAME = f"pg{find_binaries().major}"


@contextmanager
def account(user: int) -> Iterator[None]:
    """As this user, as far as the rights on files go."""
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def planted(public: Path) -> Path:
    """A `.headway` of an attacker's, in a directory of everybody's."""
    public.chmod(0o777)
    place = public / ".headway"
    place.mkdir()
    place.chmod(0o777)
    os.chown(place, ATTACKER, ATTACKER)
    return place


def refusal(root: Path) -> str:
    with pytest.raises(EmbeddedUnavailable) as raised:
        start(root)
    return str(raised.value)


@as_root
@pytest.mark.parametrize("victim", [0, 65534], ids=["root", "nobody"])
@pytest.mark.parametrize("name", [f"{NAME}.log", f"{NAME}.guard.lock", f"{NAME}.clients.lock"])
def test_s8_a_directory_of_another_account_is_refused_and_its_links_are_not_followed(
    planted: Path, public: Path, victim: int, name: str
) -> None:
    target = public / "target"
    (planted / name).symlink_to(target)
    with account(victim):
        said = refusal(planted)
    assert f"{planted} belongs to user {ATTACKER}" in said
    assert "HEADWAY_LOCAL" in said
    assert not target.exists()
    assert [path.name for path in planted.iterdir()] == [name], "nothing was made in it"


@as_root
@pytest.mark.parametrize("name", ["log", "guard.lock", "clients.lock", "watchdog.lock"])
def test_s8_a_link_in_a_directory_of_our_own_is_not_followed_either(root, tmp_path, name) -> None:
    with start(root) as server:
        home = server.data.parent
    target = tmp_path / "target"
    link = home / f"{NAME}.{name}"
    with (home / f"{NAME}.watchdog.lock").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # it has ended
    link.unlink()
    link.symlink_to(target)
    assert refusal(root) == (
        f"{link} is a link, but locks and logs of the embedded server must be files; remove it"
    )
    assert not target.exists()
    link.unlink()
    start(root).close()


@as_root
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_s8_nobody_joins_the_server_of_a_directory_that_others_may_write_to(
    public: Path, mode: int
) -> None:
    """With a pid file that leads to the attacker's socket, and the watchdog's lock held."""
    planted = public / ".headway"
    data = planted / NAME
    data.mkdir(parents=True)
    planted.chmod(mode)
    path = public / "s" / ".s.PGSQL.5432"
    path.parent.mkdir()
    with (
        closing(socket.socket(socket.AF_UNIX)) as listening,
        (planted / f"{NAME}.watchdog.lock").open("w") as lock,
    ):
        listening.bind(str(path))
        listening.listen()
        fcntl.flock(lock, fcntl.LOCK_EX)
        lines = [os.getpid(), data, 0, 5432, path.parent, "", "1 2", "ready"]
        (data / "postmaster.pid").write_text("\n".join(map(str, lines)))
        said = refusal(planted)
        assert f"other accounts may write to {planted} (mode {mode:04o})" in said
        assert f"chmod go-w {planted}" in said


@as_root
def test_s8_nobody_joins_by_a_pid_file_of_another_account(root, watch, ask) -> None:
    with start(root) as server:
        pid = server.data / "postmaster.pid"
        os.chown(pid, ATTACKER, ATTACKER)
        said = refusal(root)
        assert f"{pid} belongs to user {ATTACKER}" in said
        assert "remove it" in said
        os.chown(pid, server.data.stat().st_uid, server.data.stat().st_gid)
        assert ask(server.dsn)


@as_root
def test_s8_nobody_joins_by_a_pid_file_that_is_a_link(root, watch, tmp_path) -> None:
    with start(root) as server:
        pid = server.data / "postmaster.pid"
        aside = tmp_path / "aside"
        shutil.copy(pid, aside)
        pid.rename(pid.with_name("kept"))
        pid.symlink_to(aside)
        assert "postmaster.pid" in refusal(root)
        pid.unlink()
        pid.with_name("kept").rename(pid)


@as_root
def test_s8_data_of_another_account_is_refused(public: Path) -> None:
    home = public / "home"
    data = home / ".headway" / NAME
    data.mkdir(parents=True)
    home.chmod(0o755)
    nobody = places.choose_account(Path("/nonexistent"))
    nobody.own(home)
    nobody.own(home / ".headway")
    (home / ".headway").chmod(0o700)
    os.chown(data, ATTACKER, ATTACKER)
    assert nobody.user is not None
    with account(nobody.user):
        assert f"{data} belongs to user {ATTACKER}" in refusal(home / ".headway")


@as_root
def test_s8_root_does_not_enter_the_directory_of_a_user(public: Path) -> None:
    (public / ".headway").mkdir(0o700)
    os.chown(public / ".headway", ATTACKER, ATTACKER)
    assert "run as its owner" in refusal(public / ".headway")


@as_root
def test_s8_a_link_to_a_directory_counts_only_if_we_or_root_made_it(public: Path, ask) -> None:
    start(public / "kept").close()
    link = public / ".headway"
    link.symlink_to(public / "kept")
    with start(link) as server:
        assert server.data.parent == public / "kept"
    os.chown(link, ATTACKER, ATTACKER, follow_symlinks=False)
    assert f"{link} belongs to user {ATTACKER}" in refusal(link)


def test_s21_data_of_another_major_version_is_mentioned(root, watch, caplog) -> None:
    with caplog.at_level(logging.WARNING, log.name):
        start(root).close()
        assert caplog.messages == []
        (watch.home / "pg13").mkdir()
        (watch.home / "pg13.log").touch()
        start(root).close()
    (said,) = caplog.messages
    assert f"{watch.home / 'pg13'}, which has data of another version" in said
    assert "HEADWAY_PG_BIN" in said


def test_s23_a_file_in_the_place_of_the_directory_is_named_and_nothing_is_left(root) -> None:
    root.write_text("mine")
    before = sorted(places.STATE.glob("*")) if os.geteuid() == 0 else []
    said = refusal(root)
    assert said.startswith(f"{root} is not a directory")
    assert root.read_text() == "mine"
    assert before == (sorted(places.STATE.glob("*")) if os.geteuid() == 0 else [])


def test_s23_a_deleted_working_directory_is_said(tmp_path, monkeypatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert refusal(Path(".headway")).startswith("the working directory was deleted")


def test_s24_nobody_is_trusted_over_the_network(root, ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with start(root, settings={"listen_addresses": "127.0.0.1", "port": str(port)}) as server:
        rules = "select string_agg(distinct auth_method, ' ') from pg_hba_file_rules where type "
        assert ask(server.dsn, f"{rules} <> 'local'") == "reject"
        for more in ("", " replication=true"):
            with pytest.raises(psycopg.OperationalError, match=r"pg_hba\.conf rejects"):
                psycopg.connect(f"host=127.0.0.1 port={port} user=postgres dbname=postgres{more}")
