"""B2: commands name their database, and none of them makes an embedded one."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import click.testing
import pytest

from headway import Headway
from headway.cli.root import COMMANDS, root
from tests.cli.conftest import APP

_ID = "01a1ec46-d458-7000-8000-000000000000"

CHANGES = {
    "migrate": ["migrate"],
    "job enqueue": ["job", "enqueue", "add", '{"a": 1, "b": 2}'],
    "job enqueue --app": ["job", "enqueue", "add", '{"a": 1, "b": 2}', "--app", APP],
    "job edit": ["job", "edit", _ID, "{}"],
    "job retry": ["job", "retry", _ID],
    "job cancel": ["job", "cancel", _ID],
    "queue pause": ["queue", "pause", "mail"],
    "queue resume": ["queue", "resume", "mail"],
    "queue limit": ["queue", "limit", "mail", "--concurrency", "1"],
    "queue purge": ["queue", "purge", "mail", "--yes"],
    "queue move": ["queue", "move", "mail", "post", "--yes"],
    "queue drain": ["queue", "drain", "mail"],
    "schedule put": ["schedule", "put", "nightly", "add", "@every 1h"],
    "schedule pause": ["schedule", "pause", "nightly"],
    "schedule resume": ["schedule", "resume", "nightly"],
    "schedule run": ["schedule", "run", "nightly"],
    "schedule remove": ["schedule", "remove", "nightly"],
    "worker-drain": ["worker-drain", "1"],
}
READS = {
    "job list": ["job", "list"],
    "job show": ["job", "show", _ID],
    "job explain": ["job", "explain", _ID],
    "queue list": ["queue", "list"],
    "queue limits": ["queue", "limits"],
    "queue metrics": ["queue", "metrics"],
    "schedule list": ["schedule", "list"],
    "schedule next": ["schedule", "next", "nightly"],
    "check": ["check", APP],
    "errors": ["errors"],
    "health": ["health"],
    "worker-list": ["worker-list"],
}
OWN_SCHEMA = {"bench": ["bench", "--jobs", "100", "--seconds", "0.2"]}
"""Commands that take no `--schema`: test_bench.py has what they say."""
WITHOUT_A_DATABASE = {"init", "config", "worker"}
"""`worker` makes an embedded server; the others ask no database."""


def _run(*words: str) -> click.testing.Result:
    sys.modules.pop("tests.cli.shop", None)
    return click.testing.CliRunner().invoke(root, words)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory without anything in it, and an environment that names no database."""
    for name in ("HEADWAY_DATABASE_URL", "DATABASE_URL", "HEADWAY_ENV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_b2_every_command_is_in_one_of_the_lists() -> None:
    listed = {
        words.partition(" --")[0] for words in (*CHANGES, *READS, *OWN_SCHEMA)
    } | WITHOUT_A_DATABASE
    context = click.Context(root)
    there: set[str] = set()
    for name in COMMANDS:
        command = root.get_command(context, name)
        inner = command.list_commands(context) if isinstance(command, click.Group) else []
        there |= {f"{name} {each}" for each in inner} or {name}
    assert there == listed


def test_b2_every_command_names_the_database(
    app: Headway, dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_DATABASE_URL", dsn)  # put back: `--app` with `--dsn` sets it
    place = app.place
    words = (
        f"using host {place.host}, port {place.port}, database {place.database}, schema {schema}\n"
    )
    for name, command in (CHANGES | READS).items():
        if name == "health":  # on standard output, below
            continue
        said = _run(*command, "--dsn", dsn, "--schema", schema, "--json")
        assert said.exit_code in (0, 1), (command, said.output)
        assert words in said.stderr, command
        if said.stdout:
            json.loads(said.stdout)


def test_b2_no_command_makes_an_embedded_database(nowhere: Path) -> None:
    for command in (CHANGES | READS | OWN_SCHEMA).values():
        said = _run(*command)
        assert said.exit_code == 2, (command, said.output)
        for word in ("DATABASE_URL", "--dsn", "start a worker"):
            assert word in said.stderr, command
        assert list(nowhere.iterdir()) == [], command


def test_b2_health_names_the_database(app: Headway, dsn: str, schema: str) -> None:
    place = app._session.place
    shown = _run("health", "--dsn", dsn, "--schema", schema)
    assert f"host {place.host}, port {place.port}, database {place.database}" in shown.stdout
    figures = json.loads(_run("health", "--dsn", dsn, "--schema", schema, "--json").stdout)
    assert figures["database"] == {
        "host": place.host,
        "port": place.port,
        "database": place.database,
        "schema": schema,
        "embedded": False,
    }
    away = _run("health", "--dsn", "host=127.0.0.1 port=1 dbname=app", "--schema", schema)
    assert away.exit_code == 3
    assert "host 127.0.0.1, port 1, database app, schema" in " ".join(away.stdout.split())


@pytest.mark.embedded_only
def test_b2_an_embedded_database_that_exists_is_used_and_named(nowhere: Path) -> None:
    with Headway():
        named = (
            r"note: no database is configured; using the EMBEDDED server at host \S+, port 5432, "
        )
        for words in (["queue", "pause", "mail"], ["queue", "list", "--json"], ["migrate"]):
            said = _run(*words)
            assert said.exit_code == 0, said.output
            assert len(re.findall(named, said.stderr)) == 1
            assert "using host" not in said.stderr
            assert str(nowhere) in said.stderr or "/var/lib/headway" in said.stderr
        health = json.loads(_run("health", "--json").stdout)
        assert health["database"]["embedded"] is True
        assert "the EMBEDDED server" in _run("health").stdout


@pytest.mark.embedded_only
def test_s21_data_of_another_version_alone_is_no_database(nowhere: Path) -> None:
    (nowhere / ".headway" / "pg13").mkdir(parents=True)
    said = _run("job", "list")
    assert said.exit_code == 2
    assert [path.name for path in (nowhere / ".headway").iterdir()] == ["pg13"]


def test_s23_in_a_deleted_directory_commands_say_what_is_wrong(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = nowhere / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for words in (["queue", "list"], ["worker", "app:hw"]):
        said = _run(*words)
        assert said.exit_code == 2, said.output
