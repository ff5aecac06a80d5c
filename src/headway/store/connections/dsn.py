"""DSNs: reading them, refusing what cannot be one, and saying where they lead. No password is repeated.

libpq quotes what it cannot read, and that may be a password. So its messages are recognised by their
beginning and given in words of our own; one that is not in the list is not repeated at all.
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
    ('missing "=" after', "a word without \"=\" is in it; quote values with spaces like 'a b'"),
    ("unterminated quoted string", "a quote in it does not end"),
    ("unexpected spaces found", "spaces are in it; write a space as %20"),
    ("invalid percent-encoded token", "a % in it begins nothing; write % as %25"),
    ("forbidden value %00", "%00 is in it, which no value may have"),
    ("end of string reached when looking for matching", "a ] is missing behind an IPv6 address"),
    ("IPv6 host address may not be empty", "the IPv6 address in it is empty"),
    ("unexpected character", "an IPv6 address is followed by neither : nor /"),
    ("extra key/value separator", "an option of it has two =; separate options with &"),
    ("missing key/value separator", "an option of it has no ="),
    ("invalid connection option", "it has an option that PostgreSQL does not know"),
    ("invalid URI query parameter", "it has an option that PostgreSQL does not know"),
)


def plain_dsn(dsn: str) -> str:
    """Return the DSN without the driver that SQLAlchemy has in it.

    >>> plain_dsn("postgresql+asyncpg://db/app")
    'postgresql://db/app'
    """
    return _DRIVER.sub(r"\1", dsn, count=1) if _DRIVER.match(dsn) else dsn


def read_dsn(dsn: str) -> dict[str, str]:
    """Return the options of a plain DSN; ConfigError if it is none, or holds a password elsewhere."""
    if "\0" in dsn or _has_surrogates(dsn):
        raise _unreadable("characters are in it that no server could be sent")
    if "://" in dsn and not _ADDRESS.match(dsn):
        raise _unreadable("it does not begin with postgresql://")
    try:
        given = {key: str(value) for key, value in conninfo_to_dict(dsn).items()}
    except psycopg.Error as error:
        raise _unreadable(_in_our_words(str(error))) from None
    if not _PORTS.fullmatch(given.get("port", "")):
        raise _unreadable("its port is no number; write / as %2F in a password")
    if "@" in given.get("host", "")[1:] or (_ADDRESS.match(dsn) and "@" in _path(dsn)):
        raise _unreadable("a second @ is in it; write @ as %40 and / as %2F in a password")
    for key, value in given.items():
        if key not in _SECRETS and _MISPLACED.search(value):
            raise _unreadable("a password is in another option of it; see what separates options")
    return given


@dataclass(frozen=True, slots=True)
class Place:
    """Where a DSN and a schema lead to, for people: nothing secret is in it."""

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


def place_of(dsn: str, schema: str, *, embedded: bool = False) -> Place:
    """Return where this leads; what the DSN leaves open is as libpq's variables and defaults have it."""
    given = conninfo_to_dict(dsn)

    def value(key: str, otherwise: str) -> str:
        return str(given.get(key) or _defaults().get(key) or otherwise)

    host = given.get("host") or given.get("hostaddr") or _defaults().get("host")
    if host is None:
        service = given.get("service") or _defaults().get("service")
        host = f"of service {service}" if service else "local socket"
    database = value("dbname", value("user", "the user's"))
    return Place(str(host), value("port", "5432"), database, schema, embedded)


def _defaults() -> dict[str, str]:
    found = {option.keyword.decode(): option.val for option in Conninfo.get_defaults()}
    return {key: val.decode(errors="replace") for key, val in found.items() if val}


def _in_our_words(said: str) -> str:
    words = " ".join(said.split())
    option = _OPTION.fullmatch(words)
    # Only what is much like an option is one that was mistyped; else it may be half a password.
    if option and (close := get_close_matches(option[1].lower(), _options(), 1)):
        return f"it has no option {option[1]!r}; did you mean {close[0]!r}?"
    for beginning, ours in _SAID_BY_LIBPQ:
        if words.startswith(beginning):
            return ours
    return "PostgreSQL's library does not understand it"


@cache
def _options() -> tuple[str, ...]:
    return tuple(option.keyword.decode() for option in Conninfo.get_defaults())


def _path(dsn: str) -> str:
    """The part of an address that names the database."""
    return dsn.partition("://")[2].partition("/")[2].partition("?")[0]


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def _unreadable(why: str) -> ConfigError:
    return ConfigError(
        f"the DSN cannot be read ({why}); write it like postgresql://user:password@host:5432/database"
    )
