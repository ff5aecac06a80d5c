"""B2: whether an embedded server may be used at all, and what is said where it may not."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headway import Headway
from headway.errors import ConfigError
from headway.settings.layers import load
from tests.settings.conftest import Project


def _refused(hw: Headway) -> str:
    with pytest.raises(ConfigError) as raised:
        _ = hw.dsn
    assert not Path(".headway").exists(), "nothing was made"
    return str(raised.value)


def test_b2_production_uses_no_embedded_server(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_ENV", "production")
    said = _refused(Headway())
    assert "environment: HEADWAY_ENV rules out an embedded one" in said
    assert "set HEADWAY_DATABASE_URL or DATABASE_URL" in said
    assert (load().profile, project.value("embedded")) == ("production", False)
    project.write("headway.toml", "embedded = true\n[profiles.test]\npool_size = 3")
    assert "HEADWAY_ENV rules out" in _refused(Headway()), "the file need not name the profile"


def test_b2_production_uses_a_database_that_is_named(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_ENV", "production")
    monkeypatch.setenv("DATABASE_URL", "postgresql://db/app")
    assert Headway().dsn == "postgresql://db/app"


def test_b2_any_profile_may_say_so_and_that_of_production_otherwise(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project.write(
        "headway.toml",
        "[profiles.staging]\nembedded = false\n[profiles.production]\nembedded = true",
    )
    monkeypatch.setenv("HEADWAY_ENV", "staging")
    assert f"{file}: profiles.staging.embedded rules out" in _refused(Headway())
    monkeypatch.setenv("HEADWAY_ENV", "production")
    assert project.value("embedded") is True


def test_b2_so_may_the_environment_and_code(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "code: embedded rules out" in _refused(Headway(embedded=False))
    monkeypatch.setenv("HEADWAY_EMBEDDED", "false")
    assert "environment: HEADWAY_EMBEDDED rules out" in _refused(Headway())


@pytest.mark.slow
@pytest.mark.embedded_only
def test_b2_the_library_warns_of_an_embedded_server_that_nobody_asked_for(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "headway.settings"):
        for hw in (Headway(), Headway(local=".headway")):
            with hw:
                assert hw._session.place.embedded
    warned, informed = caplog.records
    assert (warned.levelname, informed.levelname) == ("WARNING", "INFO")
    for words in (
        "the EMBEDDED server at host /",
        "port 5432",
        "database postgres",
        "DATABASE_URL",
    ):
        assert words in warned.getMessage()
