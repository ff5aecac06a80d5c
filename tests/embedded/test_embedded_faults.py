"""Whatever is killed or torn, the next start gives a server with the committed data."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from tests.support import DEADLINE, eventually_sync

from headway.embedded import start
from headway.embedded.postmaster import Postmaster
from headway.errors import EmbeddedUnavailable

pytestmark = [pytest.mark.embedded_only, pytest.mark.timeout(60)]
linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


def test_a_killed_server_is_started_again(root, watch, ask):
    with start(root) as mine, psycopg.connect(mine.dsn):  # with a backend that has to notice
        ask(mine.dsn, "create table kept as select 42 as n")
        os.kill(watch.postmaster(), signal.SIGKILL)
        watch.wait_until_stopped()
        with start(root) as again:
            assert again.dsn == mine.dsn
            assert ask(mine.dsn, "select n from kept") == 42
        mine.close()
        watch.wait_until_stopped()


@linux
def test_a_server_without_its_watchdog_is_replaced(root, watch, ask):
    first = start(root)
    begun = ask(first.dsn)
    os.kill(watch.watchdog(), signal.SIGKILL)
    watch.wait_until_stopped()
    assert ask(first.dsn) == begun, "it runs on, unguarded"
    first.close()
    with start(root) as second:
        assert ask(second.dsn) != begun
    watch.wait_until_stopped()
    assert not (watch.data / "postmaster.pid").exists()


@linux
def test_server_and_watchdog_killed_together(root, watch, ask):
    # The dead server is left to PID 1, which may take its time: its pid still seems alive.
    with start(root) as server:
        ask(server.dsn, "create table kept as select 42 as n")
        killed = watch.watchdog(), watch.postmaster()
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        # On a busy machine they may go on for a moment, and be joined.
        eventually_sync(lambda: all(map(_is_dead, killed)))
    with start(root) as again:
        assert ask(again.dsn, "select n from kept") == 42


def _is_dead(pid: int) -> bool:
    """Return whether a process is gone, or only waits for its parent to reap it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@linux
def test_sigterm_to_the_watchdog_stops_the_server(root, watch):
    with start(root):
        os.kill(watch.watchdog(), signal.SIGTERM)
        watch.wait_until_stopped()
        assert not (watch.data / "postmaster.pid").exists()


@pytest.mark.parametrize("content", ["", "\n", "garbage\n"])
def test_a_torn_pid_file_does_not_prevent_a_start(root, watch, ask, content):
    with start(root) as server:
        pass
    watch.wait_until_stopped()
    (watch.data / "postmaster.pid").write_text(content)
    with start(root) as server:
        assert ask(server.dsn)


def test_a_pid_that_a_stranger_has_now_does_not_prevent_a_start(root, watch, ask):
    with start(root):
        pidfile = (watch.data / "postmaster.pid").read_text()
    watch.wait_until_stopped()
    owner = watch.data.stat().st_uid
    stranger = subprocess.Popen(["sleep", "60"], user=owner if os.geteuid() == 0 else None)
    try:
        lines = pidfile.splitlines()
        (watch.data / "postmaster.pid").write_text("\n".join([str(stranger.pid), *lines[1:]]))
        with start(root) as server:
            assert ask(server.dsn)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_server_that_cannot_start_shows_its_log_and_leaves_nothing(root, watch, ask):
    with pytest.raises(EmbeddedUnavailable, match="max_connections"):
        start(root, settings={"max_connections": "many"})
    watch.wait_until_stopped()
    with start(root) as server:
        assert ask(server.dsn)


def test_an_initdb_that_fails_shows_why(root, watch, monkeypatch, tmp_path, public):
    fake = public / "bin"
    fake.mkdir()
    for name, text in {
        "postgres": "echo 'postgres (PostgreSQL) 18.0'",
        "initdb": "echo 'no space left, sorry'; exit 1",
    }.items():
        (fake / name).write_text(f"#!/bin/sh\n{text}\n")
        (fake / name).chmod(0o755)
    monkeypatch.setenv("HEADWAY_PG_BIN", str(fake))
    with pytest.raises(EmbeddedUnavailable, match="no space left, sorry"):
        start(root)
    assert not list(watch.home.glob("pg18*init*"))


def test_settings_apply_to_the_one_that_starts(root, ask):
    with start(root, settings={"fsync": "off", "max_connections": "17"}) as server:
        assert ask(server.dsn, "show fsync") == "off"
        with start(root, settings={"max_connections": "99"}) as joined:
            assert ask(joined.dsn, "show max_connections") == "17"


def test_the_defaults_are_durable_and_local(root, ask):
    with start(root) as server:
        assert ask(server.dsn, "show fsync") == "on"
        assert ask(server.dsn, "show synchronous_commit") == "on"
        assert ask(server.dsn, "show listen_addresses") == ""
        assert ask(server.dsn, "show server_encoding") == "UTF8"
        assert ask(server.dsn, "select current_user") == "postgres"


def test_variables_meant_for_another_server_change_nothing(root, monkeypatch, ask):
    for name, value in {
        "PGPORT": "1",
        "PGHOST": "/nowhere",
        "PGDATA": "/nowhere",
        "PGUSER": "someone",
        "PGDATABASE": "other",
    }.items():
        monkeypatch.setenv(name, value)
    with start(root) as server:
        assert ask(server.dsn, "select current_database()") == "postgres"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_holds_until_a_signal(root, watch, hold, ask, number):
    holder = hold(root)
    assert ask(holder.dsn())
    holder.process.send_signal(number)
    assert holder.process.wait(DEADLINE) == 0
    watch.wait_until_stopped()


def test_the_command_holds_although_its_input_is_empty(root, ask):
    process = subprocess.Popen(
        [sys.executable, "-m", "headway.embedded", "--root", str(root)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert ask(process.stdout.readline().strip())
    assert process.poll() is None
    process.terminate()
    process.communicate(timeout=DEADLINE)


def test_r16_a_server_that_ended_before_it_was_told_to_is_stopped(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()  # its number names no process any more
    gone = Postmaster(ended.pid, str(tmp_path), "5432", str(tmp_path), "ready")
    gone.stop(tmp_path)
    assert not gone.answers()
