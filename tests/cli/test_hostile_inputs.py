"""Hostile inputs to the command line, the environment and the files of settings (S18, S20, S31).

hostile.py has them in tables, each with its exit code. No answer is a traceback or a bug of Headway,
shows a secret or controls the terminal.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click.testing
import pytest

from headway import Headway, Job
from headway.cli import loading
from headway.cli.exits import OK, UNREACHABLE
from headway.cli.root import root
from tests.cli import hostile
from tests.fixtures.shelf import Shelf

_STEERS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and an environment without settings."""
    for name in os.environ:
        if name.startswith("HEADWAY_") and not name.startswith("HEADWAY_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HEADWAY_DATABASE_URL", "put back after a command has set it")
    monkeypatch.delenv("HEADWAY_DATABASE_URL")
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def live(dsn: str, shelves: dict[str, Shelf]) -> Iterator[tuple[str, Job[Any]]]:
    """A schema for all commands with a waiting job: no command changes what another one sees."""
    shelf = shelves.setdefault(dsn, Shelf(dsn))
    taken = shelf.take()
    with Headway(dsn, schema=taken.name) as app:
        yield taken.name, app.task(name="greet")(lambda: None).enqueue_sync()
    shelf.give_back(taken)


@pytest.mark.parametrize(
    ("command", "code"),
    [(command, code) for code in hostile.COMMANDS for command in hostile.COMMANDS[code]],
)
def test_a_hostile_word_has_an_exit_code(
    live: tuple[str, Job[Any]], dsn: str, command: str, code: int
) -> None:
    schema, job = live
    words = [_filled(word, str(job.id)) for word in command.split()]
    place = {"--dsn": dsn, "--schema": schema}
    given = [word for option in place if option not in words for word in (option, place[option])]
    _run([*words, *given], code)
    assert job.status_sync().state == "ready"


@pytest.mark.parametrize("case", hostile.ADDRESSES)
def test_s20_a_hostile_address_has_an_exit_code_and_shows_no_password(
    here: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """On the command line, in the environment and in a file."""
    address, code = hostile.ADDRESSES[case]
    monkeypatch.setattr(loading, "CONNECT_TIMEOUT", 0.1)
    _run(["job", "list", "--dsn", address], code)
    shown = OK if code == UNREACHABLE else code
    _run(["config", "--dsn", address], shown)
    (here / "headway.toml").write_text(f"database_url = {json.dumps(address)}")
    _run(["config"], shown)
    if "\0" not in address:
        monkeypatch.setenv("DATABASE_URL", address)
        _run(["config", "--json"], shown)


@pytest.mark.parametrize("case", hostile.VARIABLES)
def test_a_hostile_variable_has_an_exit_code(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    name, value, code = hostile.VARIABLES[case]
    monkeypatch.setenv(name, value)
    _run(["config"], code)
    _run(["config", "--json"], code)


@pytest.mark.parametrize("case", hostile.FILES)
def test_s31_a_hostile_file_has_an_exit_code(here: Path, case: str) -> None:
    content, code = hostile.FILES[case]
    name = case.partition(":")[0]
    if content is hostile.DIRECTORY:
        (here / name).mkdir()
    elif content is hostile.LOOP:
        (here / name).symlink_to(name)
    else:
        assert isinstance(content, bytes)
        (here / name).write_bytes(content)
    _run(["config"], code)
    _run(["config", "--json"], code)


def _filled(word: str, live: str) -> str:
    for placeholder, text in (hostile.PLACEHOLDERS | {"<live>": live}).items():
        word = word.replace(placeholder, text)
    return word


def _run(words: list[str], code: int) -> None:
    sys.modules.pop("tests.cli.shop", None)
    result = click.testing.CliRunner().invoke(root, words)
    assert result.exit_code == code, (result.output[-500:], result.exception)
    assert isinstance(result.exception, SystemExit | None)
    for word in ("bug in Headway", "Traceback", hostile.SECRET):
        assert word not in result.output
    assert not _STEERS.search(result.output)
