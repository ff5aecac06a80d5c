"""Parses DSNs, refuses invalid ones and describes their targets. Messages never contain a password.

libpq quotes the text that it cannot parse, which may be a password. So its messages are recognised by
their beginning and replaced by our own. A message that is not in the list is never repeated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from headway.errors import ConfigError

_DRIVER = re.compile(r"(postgres(?:ql)?)\+\w+(?=://)")
_ADDRESS = re.compile(r"postgres(?:ql)?://")
_PORTS = re.compile(r"[\d,]*", re.ASCII)
_OPTION = re.compile(r'invalid (?:connection option|URI query parameter:) "(\w+)"', re.ASCII)
_MISPLACED = re.compile(r"(?i)pass\w*\s*[=:]|[;\s]pwd?\s*[=:]")
_SECRETS = ("password", "sslpassword")

_SAID_BY_LIBPQ = (
    ('missing "=" after', "it contains a word without \"=\"; quote values with spaces like 'a b'"),
    ("unterminated quoted string", "it contains a quote that does not end"),
    ("unexpected spaces found", "it contains spaces; write a space as %20"),
    ("invalid percent-encoded token", "it contains a % that begins no escape; write % as %25"),
    ("forbidden value %00", "it contains %00, which is not allowed"),
    ("end of string reached when looking for matching", "a ] is missing after an IPv6 address"),
    ("IPv6 host address may not be empty", "its IPv6 address is empty"),
    ("unexpected character", "its IPv6 address is not followed by : or /"),
    ("extra key/value separator", "one of its options has two =; separate options with &"),
    ("missing key/value separator", "one of its options has no ="),
    ("invalid connection option", "it has an option that PostgreSQL does not know"),
    ("invalid URI query parameter", "it has an option that PostgreSQL does not know"),
)


def plain_dsn(dsn: str) -> str:
    """Return the DSN without the driver name that SQLAlchemy puts in it.

    >>> plain_dsn("postgresql+asyncpg://db/app")
    'postgresql://db/app'
    """
    return _DRIVER.sub(r"\1", dsn, count=1) if _DRIVER.match(dsn) else dsn


def read_dsn(dsn: str) -> dict[str, str]:
    """Return the options of a plain DSN. Raise ConfigError if it is invalid or has a stray password."""
    if "\0" in dsn or _has_surrogates(dsn):
        raise _unreadable("it contains characters that cannot be sent to a server")
    if "://" in dsn and not _ADDRESS.match(dsn):
        raise _unreadable("it does not begin with postgresql://")
    try:
        given = {key: str(value) for key, value in conninfo_to_dict(dsn).items()}
    except psycopg.Error as error:
        raise _unreadable(_in_our_words(str(error))) from None
    if not _PORTS.fullmatch(given.get("port", "")):
        raise _unreadable("its port is not a number; write / as %2F in a password")
    if "@" in given.get("host", "")[1:] or (_ADDRESS.match(dsn) and "@" in _path(dsn)):
        raise _unreadable("it contains a second @; write @ as %40 and / as %2F in a password")
    for key, value in given.items():
        if key not in _SECRETS and _MISPLACED.search(value):
            raise _unreadable("another option contains a password; check the separators")
    return given


@dataclass(frozen=True, slots=True)
class DatabasePlace:
    """The target of a DSN and a schema, for people. It contains no secrets."""

    host: str
    port: str
    database: str
    schema: str
    embedded: bool = False

    def __str__(self) -> str:
        kind = "the EMBEDDED server at " if self.embedded else ""
        return (
            f"{kind}host {self.host}, port {self.port}, database {self.database}, "
            f"schema {self.schema}"
        )


def place_of(dsn: str, schema: str, *, embedded: bool = False) -> DatabasePlace:
    """Return the target. Options that the DSN does not set come from libpq's variables and defaults."""
    given = conninfo_to_dict(dsn)

    def value(key: str, otherwise: str) -> str:
        return str(given.get(key) or _defaults().get(key) or otherwise)

    host = given.get("host") or given.get("hostaddr") or _defaults().get("host")
    if host is None:
        service = given.get("service") or _defaults().get("service")
        host = f"of service {service}" if service else "local socket"
    database = value("dbname", value("user", "the user's"))
    return DatabasePlace(str(host), value("port", "5432"), database, schema, embedded)


def _defaults() -> dict[str, str]:
    found = {option.keyword.decode(): option.val for option in Conninfo.get_defaults()}
    return {key: val.decode(errors="replace") for key, val in found.items() if val}


def _in_our_words(said: str) -> str:
    words = " ".join(said.split())
    option = _OPTION.fullmatch(words)
    # Show a word only if it is close to an option and so a misspelling. It may be half a password.
    if option and (close := get_close_matches(option[1].lower(), options(), 1)):
        return f"it has no option {option[1]!r}; did you mean {close[0]!r}?"
    for beginning, ours in _SAID_BY_LIBPQ:
        if words.startswith(beginning):
            return ours
    return "libpq does not understand it"


@cache
def options() -> tuple[str, ...]:
    """Return the names of libpq's connection options."""
    return tuple(option.keyword.decode() for option in Conninfo.get_defaults())


def _path(dsn: str) -> str:
    """Return the part of an address that names the database."""
    return dsn.partition("://")[2].partition("/")[2].partition("?")[0]


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def _unreadable(why: str) -> ConfigError:
    return ConfigError(
        f"invalid DSN ({why}); write it like postgresql://user:password@host:5432/database"
    )
