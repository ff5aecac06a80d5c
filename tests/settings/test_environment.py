"""Variables: those of the process, those of .env, and those of other programs."""

from __future__ import annotations

from typing import Any

import pytest

from headway.settings.layers import load
from tests.settings.conftest import Project


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("WORKER__CONCURRENCY", " 20 ", "worker.concurrency", 20),
        ("WORKER__LEASE", "1m", "worker.lease", "1m"),
        ("WORKER__LEASE", "2.5", "worker.lease", 2.5),
        ("WORKER__LISTEN", "False", "worker.listen", False),
        ("WORKER__LISTEN", "on", "worker.listen", True),
        ("NOTIFY", "0", "notify", False),
        ("WORKER__ORDER", "strict", "worker.order", "strict"),
        ("WORKER__HEALTH", "8080", "worker.health", 8080),
        ("WORKER__HEALTH", "0.0.0.0:8080", "worker.health", "0.0.0.0:8080"),
        ("WORKER__HEALTH", "none", "worker.health", None),
        ("RETENTION__SUCCEEDED", "1h30m", "retention.succeeded", "1h30m"),
        ("HEALTH__MAX_WAIT", "90", "health.max_wait", 90.0),
        ("SCHEMA", "jobs", "schema", "jobs"),
    ],
)
def test_a_variable_is_read_by_the_type_of_its_field(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    text: str,
    key: str,
    value: Any,
) -> None:
    monkeypatch.setenv(f"HEADWAY_{variable}", text)
    read = project.value(key)
    assert (read, type(read)) == (value, type(value))
    assert project.origin(key) == f"environment: HEADWAY_{variable}"


@pytest.mark.parametrize(
    ("variable", "text", "complaint"),
    [
        ("WORKER__CONCURRENCY", "many", "'many' is invalid: expected a whole number, like 20"),
        ("WORKER__CONCURRENCY", "1.5", "'1.5' is invalid: expected a whole number, like 20"),
        ("WORKER__CONCURRENCY", "0", "0 is invalid: concurrency 0 must be from 1 to 100000"),
        ("WORKER__LISTEN", "maybe", "'maybe' is invalid: expected true or false"),
        ("WORKER__LEASE", "nan", "'nan' is invalid: expected a duration, like '90s'"),
        ("WORKER__HEALTH", "0.0.0.0:x", "'0.0.0.0:x' is invalid: "),
        ("LOG__LEVEL", "loud", "'loud' is invalid: expected 'debug' or 'info'"),
        ("DATABASE_URL", " ", None),
    ],
)
def test_a_variable_that_cannot_be_is_named_with_its_value(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    text: str,
    complaint: str | None,
) -> None:
    monkeypatch.setenv(f"HEADWAY_{variable}", text)
    if complaint is None:
        assert load()
    else:
        assert project.refusal().startswith(f"environment: HEADWAY_{variable} = {complaint}")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("HEADWAY_WORKER__CONCURENCY", "did you mean HEADWAY_WORKER__CONCURRENCY?"),
        ("HEADWAY_WORKER_CONCURRENCY", "did you mean HEADWAY_WORKER__CONCURRENCY?"),
        ("HEADWAY__WORKER__CONCURRENCY", "did you mean HEADWAY_WORKER__CONCURRENCY?"),
        ("HEADWAY_POOLSIZE", "did you mean HEADWAY_POOL_SIZE?"),
        ("HEADWAY_DSN", "did you mean HEADWAY_DATABASE_URL?"),
        ("HEADWAY_DB_URL", "did you mean HEADWAY_DATABASE_URL?"),
        ("HEADWAY_PROFILE", "did you mean HEADWAY_ENV?"),
        ("HEADWAY_CONCURRENCY", "did you mean HEADWAY_WORKER__CONCURRENCY?"),
        ("HEADWAY_MAX_WAIT", "did you mean HEADWAY_HEALTH__MAX_WAIT?"),
        ("HEADWAY_HEALTH", "did you mean HEADWAY_WORKER__HEALTH?"),
        (
            "HEADWAY_LOG__X",
            "the variables are HEADWAY_LOG__CONFIG, HEADWAY_LOG__FORMAT, HEADWAY_LOG__LEVEL",
        ),
    ],
)
def test_a_variable_that_must_be_meant_for_a_setting_is_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch, name: str, meant: str
) -> None:
    monkeypatch.setenv(name, "20")
    value = "***" if "DATABASE_URL" in meant else "20"  # there it may be a password
    assert project.refusal() == f"environment: unknown setting {name} (= '{value}'); {meant}"


def test_variables_of_others_that_begin_the_same_are_no_mistakes(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes makes such variables of the names of services."""
    others = ["HEADWAY_VERSION", "HEADWAY_PASSWORD"]
    for service in ("HEADWAY", "HEADWAY_DATABASE", "HEADWAY_WORKER", "HEADWAY_LOG"):
        others += [f"{service}_SERVICE_HOST", f"{service}_SERVICE_PORT_HTTP", f"{service}_PORT"]
        others += [f"{service}_PORT_8080_TCP", f"{service}_PORT_8080_TCP_ADDR"]
    for name in others:
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("HEADWAY_PG_BIN", "x")
    ignored = [name for name in load().ignored if not name.startswith("HEADWAY_TEST_")]
    assert sorted(ignored) == sorted(others)


def test_headway_s_own_variable_goes_before_the_usual_one_and_both_before_a_file(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.value("database_url") is None
    project.write("headway.toml", "database_url = 'postgresql://file'")
    assert project.value("database_url") == "postgresql://file"
    monkeypatch.setenv("DATABASE_URL", "postgresql://usual")
    assert project.value("database_url") == "postgresql://usual"
    project.write(".env", "HEADWAY_DATABASE_URL=postgresql://ours")
    assert project.value("database_url") == "postgresql://ours"


def test_an_empty_variable_says_nothing_and_hides_the_one_in_dotenv(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(".env", "HEADWAY_POOL_SIZE=3\nHEADWAY_SCHEMA=\nHEADWAY_ENV=\n")
    project.write("headway.toml", "pool_size = 2")
    assert (project.value("pool_size"), project.value("schema")) == (3, "headway")
    monkeypatch.setenv("HEADWAY_POOL_SIZE", "")
    assert project.value("pool_size") == 2


def test_dotenv_is_the_one_next_to_the_file_else_in_the_working_directory(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(".env", "HEADWAY_POOL_SIZE=3")
    project.write("a/.env", "HEADWAY_POOL_SIZE=4")
    monkeypatch.chdir("a")
    assert project.value("pool_size") == 4
    file = project.write("headway.toml", "")
    settings = load()
    assert settings["pool_size"].value == 3
    here = project.directory / "a" / ".env"
    assert settings.notes == (
        f"{here} is not read: .env must be in the directory of the configuration, {file.parent}",
    )
    project.write("a/.env", "OTHER=4")
    assert load().notes == ()


def test_dotenv_says_on_which_line_something_is_wrong(project: Project) -> None:
    file = project.write(".env", "OTHER='never closed\n\nHEADWAY_POOL_SIZE=ten # why not\n")
    said = "HEADWAY_POOL_SIZE = 'ten' is invalid: expected a whole number, like 20"
    assert project.refusal() == f"{file}, line 3: {said}"
    project.write(".env", "HEADWAY_SCHEMA='jobs")
    assert project.refusal().startswith(f"{file}, line 1: HEADWAY_SCHEMA has an opening quote only")
    project.write(".env", "HEADWAY_CONFIG=x.toml")
    assert "set it in the environment itself" in project.refusal()
