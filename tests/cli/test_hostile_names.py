"""S18: names that could steer a terminal do not, wherever a command prints them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from uuid import UUID

import click.testing
import psycopg
import pytest
from psycopg import sql

from headway import Headway
from headway.cli.root import root
from headway.store import migrate
from tests.sql.hand import Hand

# Clears the screen; the same in C1; writes backwards; makes a line of its own.
NAME = "x\x1b[2J\x9b2J\u202ey\nFAKE"
_STEERS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_NAMED = {
    "job": ("task", "step", "queue"),
    "archive": ("task", "step", "queue"),
    "attempt": ("task", "step", "queue", "next_step"),
    "worker": ("name", "version", "trouble"),
    "control": ("name", "paused_by", "pause_reason", "changed_by"),
    "schedule": ("task", "paused_by", "pause_reason"),
}


@pytest.fixture(scope="module")
def hostile(dsn: str) -> Iterator[Hand]:
    """A schema whose rows no check was asked about, as an old version or the owner may leave it."""
    name = f"hw_hostile_{os.getpid()}"
    migrate.run_sync(dsn, name)
    hand = Hand(dsn, name)
    checks = """
        select conrelid::regclass as place, conname as name from pg_constraint
        where connamespace = %s::regnamespace and contype = 'c' and conislocal and conrelid <> 0"""
    for check in hand.rows(checks, name):
        hand.rows(f"alter table {check['place']} drop constraint {check['name']}")
    hw = Headway(dsn, schema=name)
    hw.task(name="greet")(lambda: None)
    hw.schedules.put_sync("nightly", "greet", "@yearly")
    hw.schedules.pause_sync("nightly")
    hw.close_sync()
    hand.enqueue(queue="held")
    (claimed,) = hand.claim("held")
    assert hand.settle("fail", claimed, "boom", again=False)
    hand.enqueue()
    hand.call("pause", task="greet")
    hand.call("set_limit", "mail", 3)
    hand.rows(
        "insert into worker (name, version, slots, queues, tasks, started_at, seen_at, expires_at) "
        "values ('w', '1', 1, '[]', '[]', now(), now(), now() + interval '1 hour')"
    )
    for table, columns in _NAMED.items():
        for column in columns:
            hand.rows(f"update {table} set {column} = %s", NAME)
    hand.rows("update worker set queues = jsonb_build_array(%s::text)", NAME)
    hand.rows("update schedule set name = %s", NAME)
    yield hand
    hand.close()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(name)))


def _ids(hand: Hand) -> tuple[UUID, UUID]:
    return hand.value("select id from job"), hand.value("select id from archive")


@pytest.mark.parametrize(
    "words",
    [
        "job list",
        "job show LIVE",
        "job show ENDED",
        "job explain LIVE",
        "job explain ENDED",
        "queue list",
        "queue metrics",
        "queue limits",
        "schedule list",
        "worker-list",
        "health",
        "errors",
        "errors --group",
        "job retry --since 1h",
    ],
)
def test_s18_a_name_does_not_steer_the_terminal(hostile: Hand, words: str) -> None:
    live, ended = _ids(hostile)
    told = words.replace("LIVE", str(live)).replace("ENDED", str(ended)).split()
    place = ["--dsn", hostile.dsn, "--schema", hostile.schema]
    result = click.testing.CliRunner().invoke(root, [*told, *place])
    assert result.exit_code in (0, 1, 2), (result.output, result.exception)
    assert "defect" not in result.output
    assert "\\x1b" in result.output, "the name is there, spelled out"
    assert not _STEERS.search(result.output)
    if not re.match("job (explain|show LIVE)", words):  # a reason has a line of its own
        assert not re.search(r"^FAKE", result.output, re.MULTILINE)
