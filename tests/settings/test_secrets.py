"""Passwords are in no message, no list and no representation."""

from __future__ import annotations

import pytest

from headway import Headway
from headway.settings.origin import shown, without_password
from tests.settings.conftest import Project


@pytest.mark.parametrize(
    ("dsn", "safe"),
    [
        ("postgresql://ada:geheim@db:5432/app", "postgresql://ada:***@db:5432/app"),
        ("postgres://ada:ge@he/im@db/app", "postgres://ada:***@db/app"),
        ("postgresql://:geheim@db/app", "postgresql://:***@db/app"),
        ("postgresql://db/app?user=ada&password=geheim&port=1", "postgresql://db/app?user=ada&password=***&port=1"),
        ("postgresql://ada@db1:1,db2:2/app?sslpassword=geheim", "postgresql://ada@db1:1,db2:2/app?sslpassword=***"),
        ("host=db user=ada password=geheim dbname=app", "host=db user=ada password=*** dbname=app"),
        ("password = 'geheim \\' geheim' host=db", "password = *** host=db"),
        ("PASSWORD=ge\\ heim host=db", "PASSWORD=*** host=db"),
        ("password='geheim", "***"),
        ("postgresql://ada@db/app", "postgresql://ada@db/app"),
        ("host=db dbname=app", "host=db dbname=app"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_password_is_hidden_in_every_form_of_a_dsn(dsn: str, safe: str) -> None:
    assert without_password(dsn) == safe
    assert "geheim" not in without_password(dsn)


@pytest.mark.parametrize(
    "dsn",
    [
        "ada:geheim@db/app",
        "postgresql:/ada:geheim@db/app",
        "postgresql//ada:geheim@db/app",
        "postgresql:ada:geheim@db/app",
        "postgresql://ada:geheim",
        "postgresql://a/b:geheim@db/app",
        "postgresql://u?x:geheim@db/app",
        "host=db pass=geheim",
        "host=db pwd=geheim",
        "Server=db;Pwd=geheim",
        "postgresql://db/app?pass=geheim",
    ],
)
def test_nor_is_it_shown_where_the_dsn_is_none(dsn: str) -> None:
    assert "geheim" not in without_password(dsn)


@pytest.mark.parametrize(
    "dsn", ["postgresql://db:5432/app", "postgresql://[::1]:5432/app", "postgresql://a:1,b:2/app"]
)
def test_a_port_is_no_password(dsn: str) -> None:
    assert without_password(dsn) == dsn


def test_what_is_called_a_secret_is_hidden_altogether() -> None:
    assert shown("password", "geheim") == "'***'"
    assert shown("worker", {"api_token": "geheim", "lease": 3}) == "{api_token = '***', lease = 3}"
    assert shown("x", ["postgresql://a:geheim@b"]) == "['postgresql://a:***@b']"


def test_no_message_and_no_representation_has_a_password_in_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = "postgresql://ada:geheim@db/app"
    hw = Headway(dsn)
    assert hw.settings["database_url"].value == dsn
    assert hw.settings["database_url"].shown == "postgresql://ada:***@db/app"
    assert "geheim" not in repr(hw.settings)
    project.write("headway.toml", f"databaseurl = '{dsn}'")
    assert "geheim" not in project.refusal()
    project.write("headway.toml", f"pool_size = '{dsn}'")
    assert "geheim" not in project.refusal()
    project.write("headway.toml", "")
    monkeypatch.setenv("HEADWAY_DATABASEURL", dsn)
    assert "geheim" not in project.refusal()
