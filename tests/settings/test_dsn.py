"""A DSN that cannot be read: refused before anything is opened, with its origin, without its password."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from headway import Headway
from headway.errors import ConfigError
from headway.settings.origin import shown, without_password
from headway.store.connections import dsn as dsn_module
from headway.store.connections.connect import complete_dsn
from headway.store.connections.dsn import place_of
from tests.settings.conftest import Project

_WRONG = {
    "another scheme": "mysql://ada:geheim@db/app",
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
    hw._session.redirect(dsn=dsn)
    said.append(project.refusal(lambda: hw.settings))
    assert said[3].startswith("command line: --dsn = ")
    assert not [words for words in said if "heim" in words]
    assert all("write it like postgresql://" in words for words in said)


def test_an_empty_one_is_not_none(project: Project) -> None:
    """As a variable is that a script forgot to set: it must not end on some other database."""
    words = "is empty; give an address, or leave it out"
    assert words in project.refusal(lambda: Headway(""))
    hw = Headway()
    assert words in project.refusal(lambda: hw._session.redirect(dsn=""))


def test_what_is_wrong_with_it_is_said(project: Project) -> None:
    said = project.refusal(_settings("host=db pasword=geheim"))
    assert "it has no option 'pasword'; did you mean 'password'?" in said
    said = project.refusal(_settings("postgresql://ada:ge/heim@db/app"))
    assert "its port is not a number; write / as %2F in a password" in said


def test_several_servers_are_a_dsn(project: Project) -> None:
    several = "postgresql://ada@db1:5432,db2:5433/app?target_session_attrs=read-write"
    for dsn in (several, "host=db1,db2 port=5432,", "service=app"):
        assert Headway(dsn).settings["database_url"].value == dsn


@pytest.mark.parametrize(
    ("dsn", "safe"),
    [
        ("host=db password=ge heim dbname=app", "***"),
        ("password=ge heim ge heim", "***"),
        ("host=db password='ge' heim", "***"),
        ("pasword=geheim host=db", "pasword=*** host=db"),
    ],
)
def test_what_belongs_to_a_password_most_likely_is_hidden_as_well(dsn: str, safe: str) -> None:
    assert without_password(dsn) == safe


_SECRET = "hUnTeR2xyz"
_HOLDS_A_SECRET = [
    # The DSNs of the audit.
    "postgresql://u:hUnTeR2xyz x@h/db",
    "postgresql://h/db?user=u;password=hUnTeR2xyz",
    "host=h password:hUnTeR2xyz",
    "host=h pw=hUnTeR2xyz",
    # Others that are no DSNs.
    "hUnTeR2xyz",
    "u:hUnTeR2xyz@h/db",
    "mysql://u:hUnTeR2xyz@h/db",
    "jdbc:postgresql://h/db?user=u&password=hUnTeR2xyz",
    "postgresql:/u:hUnTeR2xyz@h/db",
    "postgresql:u:hUnTeR2xyz@h/db",
    '"postgresql://u:hUnTeR2xyz@h/db"',
    "psql postgresql://u:hUnTeR2xyz@h/db",
    "DATABASE_URL=postgresql://u:hUnTeR2xyz@h/db",
    "Server=h;Pwd=hUnTeR2xyz",
    # Marks that stand for something else in an address.
    "postgresql://u:50%hUnTeR2xyz@h/db",
    "postgresql://u:%00hUnTeR2xyz@h/db",
    "postgresql://u:a/hUnTeR2xyz@h/db",
    "postgresql://u:1/hUnTeR2xyz@h/db",
    "postgresql://u:a@hUnTeR2xyz@h/db",
    "postgresql://u:hUnTeR2xyz@[::1/db",
    "postgresql://u:hUnTeR2xyz@[]/db",
    "postgresql://u:hUnTeR2xyz@[::1]x/db",
    "postgresql://u:hUnTeR2xyz@h:port/db",
    "postgresql://u:hUnTeR2xyz",
    "postgresql://u:p@h/db#password=hUnTeR2xyz",
    "postgresql://h/db?hUnTeR2xyz",
    "postgresql://h/db?hUnTeR2xyz=1",
    "postgresql://h/db?pass=hUnTeR2xyz",
    "postgresql://h/db?user=a=hUnTeR2xyz",
    "postgresql+asyncpg://u:hUnTeR2xyz x@h/db",
    # Words.
    "host=h password='hUnTeR2xyz",
    "host=h password=a hUnTeR2xyz",
    "host=h password=a hUnTeR2xyz=b",
    "host=h passwrd=hUnTeR2xyz",
    "host=h;password=hUnTeR2xyz",
    "host=h password=hUnTeR2xyz\0",
    "host=h password=hUnTeR2xyz\ud800",
]


@pytest.mark.parametrize("dsn", _HOLDS_A_SECRET)
def test_s20_no_message_about_a_dsn_has_its_password_in_it(project: Project, dsn: str) -> None:
    said = [project.refusal(_settings(dsn))]
    assert "invalid DSN" in said[0]
    said.append(project.refusal(lambda: complete_dsn(dsn)))
    said.append(shown("database_url", dsn))
    if "\0" not in dsn and dsn.isascii():
        for key in ("databaseurl", "pool_size", "dsn"):
            project.write("headway.toml", f"{key} = '''{dsn}'''")
            said.append(project.refusal())
    if dsn == _SECRET:
        said = [words for words in said if "pool_size" not in words]  # it is not like a DSN at all
    assert not [words for words in said if _SECRET in words]


def test_s20_a_message_of_libpq_that_nobody_knows_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: str) -> None:
        raise psycopg.ProgrammingError(f"something new: {_SECRET}")

    monkeypatch.setattr(dsn_module, "conninfo_to_dict", refuse)
    with pytest.raises(ConfigError, match="libpq does not understand it") as raised:
        complete_dsn("host=h")
    assert _SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "scheme",
    ["postgresql+asyncpg", "postgresql+psycopg", "postgresql+psycopg2", "postgres", "postgresql"],
)
def test_b16_the_driver_in_an_address_of_sqlalchemy_is_left_out(
    project: Project, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    given = f"{scheme}://ada:geheim@db:5433/app"
    parts = {"user": "ada", "password": "geheim", "host": "db", "port": "5433", "dbname": "app"}
    apps = [Headway(given)]
    project.write("headway.toml", f"database_url = '{given}'")
    apps.append(Headway())
    assert apps[1].settings["database_url"].shown == f"{scheme}://ada:***@db:5433/app"
    monkeypatch.setenv("DATABASE_URL", given)
    apps.append(Headway())
    apps.append(Headway())
    apps[3]._session.redirect(dsn=given)
    for hw in apps:
        assert conninfo_to_dict(hw.dsn) == parts
        assert conninfo_to_dict(hw._session.target.dsn).items() >= parts.items()


def test_b16_only_a_driver_of_postgresql_is_left_out(project: Project) -> None:
    assert "it does not begin with postgresql://" in project.refusal(
        _settings("mysql+asyncmy://db/app")
    )


@pytest.mark.parametrize(
    ("dsn", "host", "port", "database"),
    [
        ("postgresql://ada:geheim@db:5433/app", "db", "5433", "app"),
        ("postgresql://ada@db1,db2:5433/app", "db1,db2", ",5433", "app"),
        ("host=/run/postgresql dbname=app", "/run/postgresql", "5432", "app"),
        ("postgresql://ada@db", "db", "5432", "ada"),
        ("service=shop", "of service shop", "5432", None),
    ],
)
def test_b2_a_place_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, dsn: str, host: str, port: str, database: str | None
) -> None:
    for name in ("PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    place = place_of(dsn, "headway")
    assert (place.host, place.port) == (host, port)
    assert database in (None, place.database)
    assert "geheim" not in str(place)
    monkeypatch.setenv("PGHOST", "elsewhere")
    assert place_of("", "headway").host == "elsewhere"
