"""The origin of a value, and how to show the value in a message without its secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headway.errors import ConfigError

Layer = Literal["default", "file", "environment", "code", "command line", "test"]

HIDDEN = "***"

_SECRET_KEY = re.compile(r"(?i)passw|secret|token|credential")
_PLACE_KEY = re.compile(r"(?i)url|dsn|database")
# Text that may hold a password, whatever its key.
_LIKE_A_PLACE = re.compile(
    r"(?i)://|@|(pass|pasw|pwd|\bpw)\w*\s*[=:]|\b(host|hostaddr|dbname|user)\s*="
)
# Hide everything up to the last @, because a password may contain one. Without any @, hide the text in
# the place of the port.
_IN_ADDRESS = re.compile(r"(?s)(?<=://)([^:@]*):.*@")
_NO_PORT = re.compile(r"(?<=://)([^:@/?\[]*):(?!\d*(?:[/?,]|$))[^/?]*")
_IN_QUERY = re.compile(r"(?<=[?&])([^&=]*=)([^&]*)")
_HOST = r"(?:[\w.-]*|\[[\w:.%]*\])(?::(?:\d*|\*\*\*))?"
_ADDRESS = re.compile(
    rf"[a-z][a-z0-9+]*://(?:[\w.%~+-]*(?::\*\*\*)?@)?{_HOST}(?:,{_HOST})*"
    r"(?:/[\w.%~+-]*)?(?:\?\w+=[\w.%~+,:/@*-]*(?:&\w+=[\w.%~+,:/@*-]*)*)?"
)
_WORD = re.compile(r"(\s*\w+\s*=\s*)('(?:\\.|[^'\\])*'|(?:\\.|[^\s\\'])*)(?=\s|$)", re.DOTALL)
_WORDS = re.compile(rf"(?:{_WORD.pattern})+\s*", re.DOTALL)
_PLAIN = re.compile(r"'?[\w.%~+,:/@\[\] -]*'?")
_SECRET_OPTION = re.compile(r"(?i)\w*(?:pass|pasw|pwd)\w*")
_HARMLESS = re.compile(
    r"host|hostaddr|port|dbname|user|service|application_name|connect_timeout|options|client_encoding|"
    r"ssl\w+|gss\w+|krbsrvname|channel_binding|require\w+|target_session_attrs|load_balance_hosts|"
    r"keepalives\w*|tcp_user_timeout"
)


@dataclass(frozen=True, slots=True)
class Origin:
    """The layer, the file (or other place) and the name in it, for messages."""

    layer: Layer
    place: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.name}" if self.place else self.layer

    def refuse(self, value: Any, problem: str) -> ConfigError:
        """Return the error for this value. It names place, key and value."""
        return ConfigError(f"{self} = {shown(self.name, value)} {problem}")


DEFAULT = Origin("default")


def shown(name: str, value: Any) -> str:
    """Return a value as a file would contain it, with its secrets hidden.

    >>> shown("database_url", "postgresql://ada:lovelace@db/app")
    "'postgresql://ada:***@db/app'"
    """
    return _as_toml(masked(name, value))


def masked(name: str, value: Any) -> Any:
    """Return the value with its secrets hidden."""
    if isinstance(value, str):
        if _SECRET_KEY.search(name):
            return HIDDEN
        in_doubt = _PLACE_KEY.search(name) or _LIKE_A_PLACE.search(value)
        return without_password(value) if in_doubt else value
    if isinstance(value, Mapping):
        return {key: masked(str(key), item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list | tuple):
        return [masked(name, item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def without_password(dsn: str) -> str:
    """Return a DSN, in either form, with its passwords hidden. Hide a malformed DSN completely.

    Only options that are known to be harmless are shown: any other text may be half a password.
    """
    if "://" in dsn:
        address = _IN_ADDRESS.sub(rf"\1:{HIDDEN}@", dsn)
        if "@" not in address:
            address = _NO_PORT.sub(rf"\1:{HIDDEN}", address)
        safe, form = _IN_QUERY.sub(_masked_option, address), _ADDRESS
    else:
        safe, form = _WORD.sub(_masked_option, dsn), _WORDS
    return safe if not safe or form.fullmatch(safe) else HIDDEN


def _masked_option(option: re.Match[str]) -> str:
    name, value = option.groups()
    plain = name.strip(" =")
    if _SECRET_OPTION.fullmatch(plain):
        return f"{name}{HIDDEN}"
    return option[0] if _HARMLESS.fullmatch(plain) and _PLAIN.fullmatch(value) else "?"


def _as_toml(value: Any) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case Mapping():
            items = [f"{key} = {_as_toml(item)}" for key, item in value.items()]  # pyright: ignore[reportUnknownVariableType]
            return f"{{{', '.join(items)}}}"
        case list():
            return f"[{', '.join(map(_as_toml, value))}]"  # pyright: ignore[reportUnknownArgumentType]
        case int() | float() | str():
            return repr(value)
        case _:
            return repr(str(value))
