"""All commands: help, exit codes, where errors go."""

from __future__ import annotations

import os
import subprocess
import sys

import click.testing
import psycopg
import pytest

from headway import __version__
from headway.cli import migrate
from headway.cli.root import COMMANDS, root
from headway.errors import ConfigError
from tests.cli.conftest import Command

_NOWHERE = "postgresql://localhost:1/nowhere"


def _run(*words: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(root, list(words))


def test_help_names_every_command_and_every_exit_code() -> None:
    shown = _run("--help")
    assert shown.exit_code == 0
    for command in ("init", "migrate", "worker", "worker-list", "job", "queue", "health"):
        assert f"\n  {command} " in shown.stdout
    for code in range(5):
        assert f"\n    {code}  " in shown.stdout


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help(command: str) -> None:
    assert _run(command, "--help").exit_code == 0


def test_the_version_is_the_packages() -> None:
    assert __version__ in _run("--version").stdout


def test_an_unknown_command_is_a_usage_error() -> None:
    assert _run("fly").exit_code == 2


def test_python_m_headway_is_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headway", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"headway, version {__version__}\n"


def test_no_command_loads_rich_before_it_draws() -> None:
    modules = sorted({path.partition(":")[0] for path in COMMANDS.values()})
    code = f"import sys, {', '.join(modules)}; sys.exit('rich' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "words",
    [
        ("job", "list"),
        ("job", "enqueue", "add"),
        ("queue", "list"),
        ("worker-list",),
        ("migrate",),
    ],
)
def test_an_unreachable_database_is_exit_code_3_and_one_line_on_stderr(
    headway: Command, words: tuple[str, ...]
) -> None:
    result = headway(*words, "--dsn", _NOWHERE, code=3)
    assert result.stdout == ""
    assert result.stderr.startswith("error: connection failed")
    assert result.stderr.endswith("check that the server is up and the DSN is right\n")
    assert result.stderr.count("\n") == 1


def test_a_dsn_that_cannot_be_read_is_exit_code_2(headway: Command) -> None:
    result = headway("job", "list", "--dsn", "what://is/this", code=2)
    assert "postgresql://user:password@host:5432/database" in result.stderr


def test_a_missing_schema_is_exit_code_2_and_says_what_to_do(headway: Command) -> None:
    result = headway("job", "list", "--schema", "not_there", code=2)
    assert "not_there" in result.stderr
    assert "headway migrate" in result.stderr


@pytest.mark.parametrize(
    ("version", "advice"), [(0, "headway migrate"), (99, "upgrade the headway")]
)
def test_an_older_or_newer_schema_is_refused(
    headway: Command, db: psycopg.Connection, version: int, advice: str
) -> None:
    db.execute(
        "update migration set version = %s, suits = %s "
        "where version = (select max(version) from migration)",
        [version, version],
    )
    assert advice in headway("queue", "list", code=2).stderr


def test_the_environment_names_the_database(
    dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", _NOWHERE)
    assert _run("job", "list", "--schema", schema).exit_code == 3
    monkeypatch.setenv("HEADWAY_DATABASE_URL", dsn)
    assert _run("job", "list", "--schema", schema).exit_code == 0


def test_debug_shows_the_traceback(dsn: str) -> None:
    result = _run("job", "list", "--dsn", dsn, "--schema", "not A schema", "--debug")
    assert isinstance(result.exception, ConfigError)


def test_a_defect_is_one_line_and_exit_code_4(
    headway: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "print_json", lambda _: 1 / 0)
    result = headway("migrate", "--json", code=4)
    assert "ZeroDivisionError" in result.stderr
    assert "--debug" in result.stderr


def test_a_reader_that_has_read_enough_is_no_error(dsn: str, schema: str) -> None:
    command = [sys.executable, "-m", "headway", "job", "list", "--dsn", dsn, "--schema", schema]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(writer)
    assert done.stderr.startswith("using host ")
    assert done.stderr.count("\n") == 1
