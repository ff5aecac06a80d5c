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
# To the last @: what is hidden may itself have one in it. Without one, what stands where a port would.
_IN_ADDRESS = re.compile(r"(?s)(?<=://)([^:@]*):.*@")
_NO_PORT = re.compile(r"(?<=://)([^:@/?\[]*):(?!\d*(?:[/?,]|$))[^/?]*")
_IN_QUERY = re.compile(r"(?i)([?&]\w*(?:pass|pasw|pwd)\w*=)[^&\s]*")
# An address that someone has mistyped.
_NO_ADDRESS = re.compile(r"(?s):.*@")
# With the words behind it that are no option of their own: a password with spaces that nobody quoted.
_IN_WORDS = re.compile(
    r"(?is)\b(\w*(?:pass|pasw|pwd)\w*\s*=\s*)('(?:\\.|[^'\\])*'?|(?:\\.|[^\s\\])+)(?:\s+(?!\w+\s*=)\S+)*"
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
        return HIDDEN if _SECRET_KEY.search(name) else without_password(value)
    if isinstance(value, Mapping):
        return {key: masked(str(key), item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list | tuple):
        return [masked(name, item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def without_password(dsn: str) -> str:
    """A DSN, in either form, with its passwords hidden; other text as it is."""
    if "://" in dsn:
        address = _IN_ADDRESS.sub(rf"\1:{HIDDEN}@", dsn)
        if "@" not in address:
            address = _NO_PORT.sub(rf"\1:{HIDDEN}", address)
        return _IN_QUERY.sub(rf"\1{HIDDEN}", address)
    return _IN_QUERY.sub(
        rf"\1{HIDDEN}", _NO_ADDRESS.sub(f":{HIDDEN}@", _IN_WORDS.sub(rf"\1{HIDDEN}", dsn))
    )


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
