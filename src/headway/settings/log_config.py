"""The file that `log.config` names: a dictionary for `logging.config` as JSON or TOML, or an ini file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.core import codec
from headway.errors import ConfigError

_INI = (".ini", ".cfg", ".conf")


def read_log_config(path: Path) -> Mapping[str, Any] | None:
    """Return the dictionary in a file; None for an ini file, which `logging.config` reads itself.

    Raise ConfigError if the file cannot be read, or has another format.
    """
    suffix = path.suffix.lower()
    if suffix not in (".json", ".toml", *_INI):
        raise ConfigError(
            f"log config {path} must end in .json, .toml or {', '.join(_INI)}, which say its format"
        )
    try:
        text = path.read_text("utf-8-sig")
        if suffix in _INI:
            return None
        table = codec.decode(text) if suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"log config {path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # not UTF-8, or not of the format
        raise ConfigError(f"log config {path} is not valid {suffix[1:].upper()}: {error}") from None
    if not isinstance(table, dict):
        raise ConfigError(f"log config {path} must hold a table for logging.config.dictConfig")
    return table  # pyright: ignore[reportUnknownVariableType]
