"""`headway config`, and what is configured for commands."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import click.testing
import psycopg
import pytest

from headway.cli.root import root
from tests.cli.conftest import APP, Spawn
from tests.support import eventually_sync

_DSN = "postgresql://ada:geheim@db/app"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, an environment without settings, and no app imported before."""
    for name in os.environ:
        if name.startswith("HEADWAY_") and not name.startswith("HEADWAY_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HEADWAY_DATABASE_URL", "put back after a command has set it")
    monkeypatch.delenv("HEADWAY_DATABASE_URL")
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def _run(*words: str, code: int = 0) -> click.testing.Result:
    result = click.testing.CliRunner().invoke(root, list(words))
    assert result.exit_code == code, (result.output, result.exception)
    return result


def _settings(*words: str) -> dict[str, Any]:
    document = json.loads(_run("config", *words, "--json").stdout)
    return {setting["key"]: setting for setting in document["settings"]} | {"document": document}


def _rows(shown: str) -> dict[str, list[str]]:
    lines = [line.split(maxsplit=2) for line in shown.splitlines()]
    return {words[0]: words[1:] for words in lines if len(words) > 1}


def test_every_setting_is_shown_with_its_value_and_where_it_came_from(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = here / "headway.toml"
    file.write_text(
        "[worker]\nlease = '1m'\nqueues = {mail = 3}\n[profiles.p.log]\nlevel = 'debug'"
    )
    (here / ".env").write_text(f"HEADWAY_ENV=p\nDATABASE_URL={_DSN}")
    (here / "settings_app.py").write_text(
        "from headway import Headway\nhw = Headway(pool_size=2, worker={'grace': '9s'})\n"
    )
    monkeypatch.setenv("HEADWAY_NOTIFY", "off")
    shown = _run("config", "settings_app", "--schema", "jobs").stdout
    assert "geheim" not in shown
    rows = _rows(shown)
    expected = {
        "file": [str(file)],
        ".env": [str(here / ".env")],
        "profile": ["p"],
        "database_url": ["'postgresql://ada:***@db/app'", f"{here / '.env'}, line 2: DATABASE_URL"],
        "schema": ["'jobs'", "command line: --schema"],
        "notify": ["false", "environment: HEADWAY_NOTIFY"],
        "pool_size": ["2", "code: pool_size"],
        "worker.lease": ["'1m'", f"{file}: worker.lease"],
        "worker.grace": ["'9s'", "code: worker.grace"],
        "worker.poll": ["'5s'", "default"],
        "log.level": ["'debug'", f"{file}: profiles.p.log.level"],
    }
    found = {key: [" ".join(word.split()) for word in rows[key]] for key in expected}
    assert found == expected
    assert "{mail = 3}" in shown


def test_programs_get_the_same(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "headway.toml").write_text("local = 'data'\n[worker]\nqueues = 'mail:3'")
    monkeypatch.setenv("HEADWAY_SERVICE_HOST", "10.0.0.1")
    settings = _settings("--dsn", _DSN)
    assert settings["database_url"] == {
        "key": "database_url",
        "value": "postgresql://ada:***@db/app",
        "layer": "command line",
        "place": "command line",
        "name": "--dsn",
    }
    assert settings["local"]["value"] == str(here / "data")
    assert settings["worker.queues"]["value"] == {"mail": 3}
    assert settings["worker.queues"]["place"] == str(here / "headway.toml")
    assert settings["log.level"] == {
        "key": "log.level",
        "value": "info",
        "layer": "default",
        "place": None,
        "name": None,
    }
    document = settings["document"]
    assert (document["file"], document["env_file"]) == (str(here / "headway.toml"), None)
    assert "HEADWAY_SERVICE_HOST" in document["ignored"]


def test_what_someone_should_know_is_said(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "headway.toml").touch()
    (here / "pyproject.toml").write_text("[tool.headway]\npool_size = 2")
    monkeypatch.setenv("HEADWAY_SERVICE_HOST", "10.0.0.1")
    shown = " ".join(_run("config").stdout.split())
    assert "pyproject.toml is ignored; keep only one" in shown
    assert "HEADWAY_SERVICE_HOST is not a Headway setting and is ignored" in shown


@pytest.mark.parametrize(
    "words", [("config",), ("job", "list"), ("health",), ("worker", "absent:hw")]
)
def test_a_configuration_that_cannot_be_is_one_line_and_exit_code_2(
    here: Path, words: tuple[str, ...]
) -> None:
    (here / "headway.toml").write_text("[worker]\nconcurency = 3")
    result = _run(*words, code=2)
    assert result.stdout == ""
    assert result.stderr == (
        f"error: {here / 'headway.toml'}: unknown setting worker.concurency (= 3); "
        "did you mean worker.concurrency?\n"
    )


@pytest.mark.parametrize(
    "words", [("config", "--json"), ("job", "list"), ("health", "--json"), ("migrate",)]
)
@pytest.mark.parametrize("dsn", ["mysql://ada:geheim@db/app", "host=db password=geheim user ada"])
def test_a_dsn_that_cannot_be_read_is_one_line_without_its_password(
    here: Path, words: tuple[str, ...], dsn: str
) -> None:
    (here / "headway.toml").write_text(f"database_url = '{dsn}'")
    result = _run(*words, code=2)
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {here / 'headway.toml'}: database_url = '")
    assert "geheim" not in result.stderr
    result = _run(*words, "--dsn", dsn, code=2)
    assert result.stderr.startswith("error: command line: --dsn = '")
    assert "geheim" not in result.stderr


def test_a_password_is_hidden_in_both_forms_of_a_dsn(here: Path) -> None:
    for dsn in (_DSN, "host=db user=ada password='geheim geheim' dbname=app"):
        (here / ".env").write_text(f'DATABASE_URL="{dsn}"')
        for words in ([], ["--json"]):
            shown = _run("config", *words).stdout
            assert "***" in shown
            assert "geheim" not in shown


def test_commands_find_the_database_that_is_configured(
    here: Path, dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "headway.toml").write_text(
        f"database_url = '''{dsn}'''\nschema = 'not_there'\n[profiles.p]\nschema = '{schema}'"
    )
    assert "not_there" in _run("job", "list", code=2).stderr
    assert _run("job", "list", "--schema", schema).exit_code == 0
    monkeypatch.setenv("HEADWAY_ENV", "p")
    assert json.loads(_run("job", "list", "--json").stdout) == []


def test_a_worker_runs_as_configured(
    here: Path, spawn_worker: Spawn, db: psycopg.Connection[Any]
) -> None:
    file = here / "jobs.toml"
    file.write_text(
        "[worker]\nqueues = ['mail']\nconcurrency = 7\n[supervisor]\nprocesses = 2\n"
        "[log]\nformat = 'json'\n"
    )
    worker = spawn_worker(APP, "-c", "3", HEADWAY_CONFIG=str(file))
    query = "select count(*), min(slots), max(slots), min(queues::text) from worker"

    def both() -> bool:
        assert worker.process.poll() is None, worker.output()
        return db.execute(query).fetchone()[:3] == (2, 3, 3)  # type: ignore[index]

    eventually_sync(both)
    assert "mail" in db.execute(query).fetchone()[3]  # type: ignore[index]
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert all(json.loads(line)["level"] for line in worker.output().splitlines())
