"""One server for all the processes of a directory, as long as there is one, and no longer."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest
from tests.support import DEADLINE

from headway.embedded import EmbeddedServer, start

pytestmark = [pytest.mark.embedded_only, pytest.mark.timeout(60)]


def test_data_survives_a_stop_and_a_start(root, watch, ask):
    with start(root) as server:
        assert server.data == watch.data
        ask(server.dsn, "create table kept as select 42 as n")
    watch.wait_until_stopped()
    assert not (watch.data / "postmaster.pid").exists()

    with start(root) as again:
        assert ask(again.dsn, "select n from kept") == 42
        assert again.dsn == server.dsn, "a pool in another process finds its way back"


def test_close_may_be_called_twice_and_spares_other_holds(root, ask):
    first, second = start(root), start(root)
    first.close()
    first.close()
    assert ask(second.dsn)
    second.close()


def test_two_processes_share_one_server(root, watch, hold, ask):
    other = hold(root)
    dsn = other.dsn()
    with start(root) as mine:
        assert mine.dsn == dsn
        assert other.let_go() == 0
        assert ask(mine.dsn), "one client ends, the other stays served"
    watch.wait_until_stopped()


def test_eight_processes_that_start_at_once_share_one_postmaster(root, watch, hold):
    holders = [hold(root) for _ in range(8)]
    dsns = [holder.dsn() for holder in holders]
    assert len(set(dsns)) == 1
    assert dsns[0].startswith("postgresql://postgres@/postgres?host=/")
    assert watch.log.count("ready to accept connections") == 1


def test_sigkill_of_the_last_client_stops_the_server(root, watch, hold):
    first, last = hold(root), hold(root)
    dsn = first.dsn()
    assert last.dsn() == dsn
    first.kill()
    last.kill()
    watch.wait_until_stopped()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn)
    assert not (watch.data / "postmaster.pid").exists(), "a clean stop, no crash"


@pytest.mark.parametrize("state", ["cold", "warm"])
def test_a_client_killed_at_any_point_of_a_start_leaves_nothing_running(root, watch, hold, state):
    if state == "warm":
        start(root).close()
        watch.wait_until_stopped()
    for milliseconds in (0, 15, 30, 50, 80):
        victim = hold(root)
        deadline = time.monotonic() + 20
        while not _is_held(watch.lock("guard")) and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(milliseconds * (5 if state == "cold" else 1) / 1000)
        victim.kill()
    with start(root) as server, psycopg.connect(server.dsn):
        pass
    watch.wait_until_stopped()
    assert not list(watch.home.glob("*.init-*"))


@pytest.mark.parametrize("kind", ["fork", "subprocess"])
def test_a_child_of_the_client_does_not_keep_the_server(root, watch, kind):
    script = f"""
import os, subprocess, sys
from headway.embedded import start
server = start({str(root)!r})
if {kind!r} == "fork":
    child = os.fork()
    if not child:
        server.close()  # harmless: the hold was the parent's
        sys.stdin.read()
        os._exit(0)
else:
    child = subprocess.Popen(["sleep", "60"], close_fds=False).pid
print(child, flush=True)
sys.stdin.read()
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdin
    assert parent.stdout
    child = int(parent.stdout.readline())
    assert watch.postmaster()
    assert _is_held(watch.lock("clients")), "the child let go of its copy only"
    parent.kill()
    parent.wait()
    watch.wait_until_stopped()
    os.kill(child, 0)  # it lives on
    os.kill(child, signal.SIGKILL)
    parent.stdin.close()
    parent.stdout.close()


def test_a_client_that_joins_during_the_stop_gets_a_fresh_server(root, watch, ask):
    first = start(root)
    postmaster = watch.postmaster()
    begun = ask(first.dsn)
    os.kill(postmaster, signal.SIGSTOP)  # now the stop takes as long as we like
    first.close()
    deadline = time.monotonic() + 20
    while not _is_held(watch.lock("guard")) and time.monotonic() < deadline:
        time.sleep(0.005)  # until the watchdog has begun to stop it
    assert _is_held(watch.lock("guard"))

    joined: list[EmbeddedServer] = []
    joiner = threading.Thread(target=lambda: joined.append(start(root)))
    joiner.start()
    joiner.join(0.2)
    assert joiner.is_alive(), "it waits for the stop"
    os.kill(postmaster, signal.SIGCONT)
    joiner.join(DEADLINE)

    with joined[0] as server:
        assert ask(server.dsn) != begun
        assert watch.postmaster() != postmaster


def test_close_and_start_in_quick_succession_always_give_a_server(root, ask):
    for _ in range(15):
        with start(root, settings={"fsync": "off"}) as server:
            assert ask(server.dsn)


def test_deleting_the_directory_under_a_server_leads_to_a_new_one(root, watch, ask):
    old = start(root)
    home, begun = watch.home, ask(old.dsn)
    try:
        shutil.rmtree(root)
        with start(root) as new:
            assert new.dsn != old.dsn
            assert ask(new.dsn) != begun
            old.close()
            assert ask(new.dsn), "the end of the old one is not the end of the new one"
    finally:
        shutil.rmtree(home, ignore_errors=True)


def test_a_copy_of_a_directory_in_use_is_another_server(public, ask):
    original, copy = public / "original", public / "copy"
    with start(original) as first:
        shutil.copytree(original, copy)
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", "nobody", next(copy.glob("pg??"))], check=True)
        with start(copy) as second:
            assert second.dsn != first.dsn
            assert ask(second.dsn) != ask(first.dsn)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root keeps the data behind a link")
def test_a_copy_of_a_link_to_the_data_is_the_same_server(root, tmp_path, ask):
    with start(root) as first:
        assert (root / "elsewhere").is_symlink()
        shutil.copytree(root, tmp_path / "copy", symlinks=True)
        with start(tmp_path / "copy") as second:
            assert second.dsn == first.dsn
            assert ask(second.dsn)


def _is_held(path: Path) -> bool:
    try:
        file = path.open("r+")
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
