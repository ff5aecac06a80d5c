"""The files of docs/deployment.md: their commands are accepted, their times and ports fit each other."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import psycopg
import pytest

from headway.cli.root import root
from headway.core.address import parse_address
from headway.core.config import WorkerOptions
from headway.core.duration import seconds
from headway.store import migrate
from tests.crash.pooler import Pooler

_GUIDE = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text("utf-8")
_SETTLING = 30
"""Seconds that a worker may take after its grace, to stop handlers, settle and close."""


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", _GUIDE, re.DOTALL)


def _number(text: str, name: str) -> int:
    (found,) = re.findall(rf"^\s*{name}\s*[=:]\s*(\d+)$", text, re.MULTILINE)
    return int(found)


def _commands() -> Iterator[list[str]]:
    for unit in _blocks("ini"):
        yield from (shlex.split(line)[1:] for line in re.findall(r"^ExecStart=(.*)$", unit, re.M))
    for file in (*_blocks("yaml"), *_blocks("dockerfile")):
        for words in re.findall(r"^\s*(?:command: |CMD )\[(.*)\]$", file, re.M):
            yield [word.strip().strip('"') for word in words.split(",")][1:]
    for line in "".join(_blocks("sh")).splitlines():
        if line.startswith("headway "):
            yield shlex.split(line, comments=True)[1:]


def _options(words: list[str]) -> dict[str, object]:
    """As the command reads them; a click error if it does not know one."""
    assert isinstance(root, click.Group)
    command = root.get_command(click.Context(root), words[0])
    assert command is not None, words
    return command.make_context(words[0], words[1:], resilient_parsing=False).params


@pytest.mark.parametrize("words", list(_commands()), ids=" ".join)
def test_every_command_is_taken(words: list[str]) -> None:
    _options(words)


def test_there_are_commands_for_systemd_containers_and_kubernetes() -> None:
    assert len([words for words in _commands() if words[0] == "worker"]) >= 4
    assert len([words for words in _commands() if words[0] == "migrate"]) >= 2


def test_the_time_before_a_kill_is_the_grace_and_what_comes_after_it() -> None:
    (unit,) = _blocks("ini")
    deployment = _blocks("yaml")[0]
    for text, option in ((unit, "TimeoutStopSec"), (deployment, "terminationGracePeriodSeconds")):
        (written,) = re.findall(r"--grace,? (\w+)", text)
        assert _number(text, option) >= seconds(written) + _SETTLING


def test_the_watchdog_is_more_patient_than_the_lease() -> None:
    (unit,) = _blocks("ini")
    assert _number(unit, "WatchdogSec") > seconds(WorkerOptions().lease)


def test_probes_ask_where_the_worker_answers() -> None:
    deployment = _blocks("yaml")[0]
    (words,) = [words for words in _commands() if "json" in words and "worker" in words][:1]
    address = parse_address(str(_options(words)["health"]))
    assert address.host == "0.0.0.0"
    assert _number(deployment, "- name: health\\n\\s*containerPort") == address.port
    assert f'prometheus.io/port: "{address.port}"' in deployment
    assert re.findall(r"path: (\S+)$", deployment, re.M) == ["/metrics", "/readyz", "/livez"]


@pytest.fixture
def fresh(dsn: str) -> Iterator[list[str]]:
    names = [f"deployed_{number}" for number in range(4)]
    yield names
    with psycopg.connect(dsn, autocommit=True) as conn:
        for name in names:
            conn.execute(f"drop schema if exists {name} cascade")


async def test_a_migration_through_a_pooler_leaves_nothing_behind_for_the_next(
    dsn: str, fresh: list[str]
) -> None:
    """A statement that one transaction prepares would be in the way of the next on that connection."""
    with Pooler(dsn, size=1) as pooler:
        for name in fresh[:2]:
            assert await migrate.run(pooler.dsn, name)
        for name in fresh[2:]:
            assert migrate.run_sync(pooler.dsn, name)
        with psycopg.connect(pooler.dsn) as conn:
            (left,) = conn.execute("select count(*) from pg_prepared_statements").fetchone() or (0,)
    assert left == 0
