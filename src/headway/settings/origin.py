"""Where a value came from, and how a message speaks of it without giving secrets away."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headway.errors import ConfigError

Layer = Literal["default", "file", "environment", "code", "command line"]

HIDDEN = "***"

_SECRET_KEY = re.compile(r"(?i)passw|secret|token|credential")
_PLACE_KEY = re.compile(r"(?i)url|dsn|database")
# Text that may hold a password whatever its key is.
_LIKE_A_PLACE = re.compile(
    r"(?i)://|@|(pass|pasw|pwd|\bpw)\w*\s*[=:]|\b(host|hostaddr|dbname|user)\s*="
)
# To the last @: what is hidden may itself have one in it. Without one, what stands where a port would.
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
    """The layer, the file (or what else) and the name in it: what a message points at."""

    layer: Layer
    place: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.name}" if self.place else self.layer

    def refuse(self, value: Any, problem: str) -> ConfigError:
        """The error that this value is; it names place, key and value."""
        return ConfigError(f"{self} = {shown(self.name, value)} {problem}")


DEFAULT = Origin("default")


def shown(name: str, value: Any) -> str:
    """A value as a file would have it, its secrets hidden.

    >>> shown("database_url", "postgresql://ada:lovelace@db/app")
    "'postgresql://ada:***@db/app'"
    """
    return _as_toml(masked(name, value))


def masked(name: str, value: Any) -> Any:
    """The value without what nobody should read over a shoulder."""
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
    """A DSN, in either form, with its passwords hidden. Hides all of what is not well-formed.

    Only options that are known to be harmless are shown: any other may be half a password.
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
