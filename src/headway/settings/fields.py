"""Every field that can be configured. They are the fields of the dataclasses that hold the defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any, get_type_hints

from headway.core.config import (
    AppOptions,
    HealthOptions,
    LogOptions,
    RetentionOptions,
    SupervisorOptions,
    WorkerOptions,
)
from headway.settings.kinds import SettingKind, kind_of

PREFIX = "HEADWAY_"
PROFILES = "profiles"

SECTIONS: Mapping[str, type] = {
    "": AppOptions,
    "retention": RetentionOptions,
    "worker": WorkerOptions,
    "supervisor": SupervisorOptions,
    "log": LogOptions,
    "health": HealthOptions,
}
"""Tables of a file, each with the dataclass whose fields are its keys; "" is the top of the file."""

_MEANT = {
    "dsn": "database_url",
    "url": "database_url",
    "database": "database_url",
    "db_url": "database_url",
}
"""Names of settings in other libraries."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its section, name, kind of value and default."""

    section: str
    name: str
    kind: SettingKind
    default: Any

    @property
    def key(self) -> str:
        """The name in a file: `worker.concurrency`."""
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def variable(self) -> str:
        """The name in the environment: `HEADWAY_WORKER__CONCURRENCY`."""
        return PREFIX + self.key.replace(".", "__").upper()


@cache
def fields() -> Mapping[str, Field]:
    """Return all fields by their keys, in the order in which they are shown."""
    found = [
        Field(section, field.name, kind_of(hints[field.name]), _default(field))
        for section, options in SECTIONS.items()
        for hints in (get_type_hints(options),)
        for field in dataclasses.fields(options)
    ]
    return {field.key: field for field in found}


def suggestion(section: str, name: str) -> str:
    """Return advice for a key that does not exist."""
    plain = name.lower().replace("-", "_")
    here = [field.name for field in fields().values() if field.section == section]
    if not section:
        here += [*filter(None, SECTIONS), PROFILES]
    plain = _MEANT.get(plain, plain)
    if close := get_close_matches(plain, here, 1):
        return f"did you mean {f'{section}.{close[0]}' if section else close[0]}?"
    if elsewhere := [field.key for field in fields().values() if field.name == plain]:
        return f"did you mean {' or '.join(elsewhere)}?"
    if not section and plain == "tool":
        return "leave out tool.headway here; it belongs in pyproject.toml"
    return f"{f'the settings of [{section}]' if section else 'the settings'} are {in_order(here)}"


def in_order(names: Iterable[str]) -> str:
    """Return names in order, for a message."""
    return ", ".join(sorted(names))


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
