"""A DSN that cannot be read: refused before anything is opened, with its origin, without its password."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headway import Headway
from headway.settings.origin import without_password
from tests.settings.conftest import Project

_WRONG = {
    "another scheme": "postgresql+psycopg://ada:geheim@db/app",
    "a percent sign in the password": "postgresql://ada:50%geheim@db/app",
    "a slash in the password": "postgresql://ada:ge/heim@db/app",
    "a bracket too few": "postgresql://ada:geheim@[::1/app",
    "an unknown word": "host=db password=geheim hots=db2",
    "a space in the password": "host=db password=ge heim",
    "a quote in the password": "host=db password='ge\" heim dbname=app",
    "no DSN at all": "geheim",
}


def _settings(dsn: str | None = None) -> Callable[[], object]:
    return lambda: Headway(dsn).settings


@pytest.mark.parametrize("dsn", _WRONG.values(), ids=_WRONG)
def test_a_dsn_that_cannot_be_read_is_refused_with_its_origin_and_without_its_password(
    project: Project, monkeypatch: pytest.MonkeyPatch, dsn: str
) -> None:
    file = project.write("headway.toml", f"database_url = '''{dsn}'''")
    said = [project.refusal(_settings())]
    assert said[0].startswith(f"{file}: database_url = ")
    monkeypatch.setenv("DATABASE_URL", dsn)
    said.append(project.refusal(_settings()))
    assert said[1].startswith("environment: DATABASE_URL = ")
    said.append(project.refusal(_settings(dsn)))
    assert said[2].startswith("code: database_url = ")
    hw = Headway()
    hw.session.redirect(dsn=dsn)
    said.append(project.refusal(lambda: hw.settings))
    assert said[3].startswith("command line: --dsn = ")
    if dsn != "geheim":
        assert not [words for words in said if "heim" in words]
    assert all("write it like postgresql://" in words for words in said)


def test_an_empty_one_is_not_none(project: Project) -> None:
    """As a variable is that a script forgot to set: it must not end on some other database."""
    words = "is empty; give an address, or leave it out"
    assert words in project.refusal(lambda: Headway(""))
    hw = Headway()
    assert words in project.refusal(lambda: hw.session.redirect(dsn=""))


def test_what_is_wrong_with_it_is_said(project: Project) -> None:
    said = project.refusal(_settings("host=db pasword=geheim"))
    assert 'invalid connection option "pasword"' in said
    said = project.refusal(_settings("postgresql://ada:ge/heim@db/app"))
    assert "its port is no number; write / as %2F in a password" in said


def test_several_servers_are_a_dsn(project: Project) -> None:
    several = "postgresql://ada@db1:5432,db2:5433/app?target_session_attrs=read-write"
    for dsn in (several, "host=db1,db2 port=5432,", "service=app"):
        assert Headway(dsn).settings["database_url"].value == dsn


@pytest.mark.parametrize(
    ("dsn", "safe"),
    [
        ("host=db password=ge heim dbname=app", "host=db password=*** dbname=app"),
        ("password=ge heim ge heim", "password=***"),
        ("host=db password='ge' heim", "host=db password=***"),
        ("pasword=geheim host=db", "pasword=*** host=db"),
    ],
)
def test_what_belongs_to_a_password_most_likely_is_hidden_as_well(dsn: str, safe: str) -> None:
    assert without_password(dsn) == safe
