"""headway.toml and pyproject.toml: finding the right one and reading it.

The search goes from the working directory upwards, to the nearest directory that has a headway.toml or a
pyproject.toml with [tool.headway]. $HEADWAY_CONFIG names a file instead. A file that the search finds and
that belongs to another account is refused: anybody can put one above the working directory.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import ConfigError
from headway.settings.environment import FILE, PROFILE, Variable, configuration_file
from headway.settings.fields import PROFILES, SECTIONS, Field, fields, in_order, suggestion
from headway.settings.origin import Origin, shown
from headway.settings.trust import distrust

_OWN = "headway.toml"
_SHARED = "pyproject.toml"
_IN_SHARED = "tool.headway"
_DEEPEST = 20

BUILT_IN: Mapping[str, Mapping[str, Any]] = {"production": {"embedded": False}}
"""Profiles that need no table, with their settings. A table of that name overrides them."""

_inherited: Path | None = None


def look_from(directory: Path | None) -> None:
    """Start the search in this directory: a child process finds the same files as its worker did."""
    global _inherited
    _inherited = directory


def working_directory() -> Path | None:
    """Return the directory where the search begins, or None if it was deleted."""
    try:
        return _inherited or Path.cwd()
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class Given:
    """A field and its value in a file."""

    field: Field
    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True)
class File:
    """A file's table. In messages, its names begin with `prefix`."""

    path: Path
    table: Mapping[str, Any]
    prefix: str = ""
    trusted: int | None = None
    """The owner of a file that the user named. A .env file of that account is trusted, too."""

    def given(self) -> list[Given]:
        """Return the settings outside profiles."""
        rest = {key: value for key, value in self.table.items() if key != PROFILES}
        return list(self._fields(rest, self.prefix))

    def profiles(self) -> dict[str, list[Given]]:
        """Return the settings of each profile. All profiles are checked, not only the requested one."""
        profiles = self.table_of(PROFILES, self._name(PROFILES))
        found: dict[str, list[Given]] = {}
        for name, value in profiles.items():
            whole = self._name(PROFILES, name)
            found[name] = list(self._fields(self._check_table(value, whole), whole))
        return found

    def profile(self, wanted: Variable) -> list[Given]:
        """Return the settings of the requested profile. Raise ConfigError if it does not exist."""
        if wanted.text in (profiles := self.profiles()) or wanted.text in BUILT_IN:
            return profiles.get(wanted.text, [])
        known = f"its profiles are {in_order(profiles)}" if profiles else "it has no profiles"
        table = self._name(PROFILES, wanted.text)
        raise wanted.origin.refuse(
            wanted.text, f"is not a profile of {self.path}; {known}; add a table [{table}]"
        )

    def _fields(self, table: Mapping[str, Any], prefix: str) -> Iterator[Given]:
        for key, value in table.items():
            if key in SECTIONS:
                name = _join(prefix, key)
                for inner, inner_value in self._check_table(value, name).items():
                    yield self._field(key, inner, inner_value, _join(name, inner))
            else:
                yield self._field("", key, value, _join(prefix, key))

    def _field(self, section: str, key: str, value: Any, name: str) -> Given:
        field = fields().get(_join(section, key))
        if field is None:
            raise ConfigError(
                f"{self.path}: unknown setting {name} (= {shown(key, value)}); "
                f"{suggestion(section, key)}"
            )
        return Given(field, value, Origin("file", str(self.path), name))

    def table_of(self, key: str, name: str) -> Mapping[str, Any]:
        """Return the table at a key, or an empty one. Error messages call it `name`."""
        return self._check_table(self.table.get(key, {}), name)

    def _check_table(self, value: Any, name: str) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            problem = f"is not a table; write it under a line [{name}]"
            raise Origin("file", str(self.path), name).refuse(value, problem)
        return value  # pyright: ignore[reportUnknownVariableType]

    def _name(self, *parts: str) -> str:
        return _join(self.prefix, *parts)


def find_file() -> tuple[File | None, list[str]]:
    """Return the configuration file, or None, and notes about the search."""
    notes: list[str] = []
    if (named := configuration_file()) is not None:
        path = (working_directory() or Path()) / expanded(
            named, Origin("environment", "environment", FILE)
        )
        file = _read(path, named=True)
        if file is None:
            raise ConfigError(
                f"environment: {FILE} = {named!r} has no table [{_IN_SHARED}]; add one to that file"
            )
        return file, notes
    start = working_directory()
    for directory in () if start is None else (start, *start.parents):
        if (file := _in(directory, notes)) is not None:
            return file, notes
    return None, notes


def expanded(path: str | Path, origin: Origin) -> Path:
    """Return a path with the home directory in place of `~`. Raise ConfigError for an unknown user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise origin.refuse(str(path), "names an unknown user; write the whole path") from None


def no_profile(wanted: Variable) -> ConfigError:
    """Return the error for a profile that was requested although there is no file."""
    return wanted.origin.refuse(
        wanted.text,
        f"is not a profile: found no {_OWN} and no [{_IN_SHARED}] in a {_SHARED}, here or above; "
        f"add [{PROFILES}.{wanted.text}] to one, or unset {PROFILE}",
    )


def _in(directory: Path, notes: list[str]) -> File | None:
    own, shared = directory / _OWN, directory / _SHARED
    try:
        has_own, has_shared = own.is_file(), shared.is_file()
    except OSError as error:
        notes.append(f"{directory} is skipped: it cannot be read ({error.strerror})")
        return None
    other = _read(shared) if has_shared else None
    if not has_own:
        return other
    if other is not None:
        notes.append(f"{own} is used and [{_IN_SHARED}] of {shared} is ignored; keep only one")
    return _read(own)


def _read(path: Path, *, named: bool = False) -> File | None:
    """Return a file's table, or None for a pyproject.toml without [tool.headway].

    Raise ConfigError if the file cannot be read, or if another account could have written it. The owner
    of a file that the user `named` is trusted.
    """
    text, status = _text(path)
    trusted = status.st_uid if named else None
    problem = distrust(path.resolve() if named else path, status, trusted)
    if path.name != _SHARED:
        _refuse_for(problem)
        return File(path, _parse(path, text), trusted=trusted)
    if "headway" not in text:
        return None  # other tools check their own tables
    tools = File(path, _parse(path, text)).table_of("tool", "tool")
    if "headway" not in tools:
        return None
    _refuse_for(problem)
    table = File(path, tools).table_of("headway", _IN_SHARED)
    return File(path, table, _IN_SHARED, trusted)


def _refuse_for(problem: str | None) -> None:
    if problem is not None:
        raise ConfigError(f"{problem}, or name a file that you trust in ${FILE}")


def _text(path: Path) -> tuple[str, os.stat_result]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            return file.read(), os.fstat(file.fileno())
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not UTF-8 ({error.reason}, byte {error.start}); save it as UTF-8"
        ) from None
    except FileNotFoundError:
        raise ConfigError(f"file {path} does not exist; correct ${FILE}, which names it") from None
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror}); let this process's user read it, "
            f"or name another file in ${FILE}"
        ) from None


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        table = tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError is one; a number of 5,000 digits another
        raise ConfigError(f"{path} is not valid TOML: {error}; correct the file") from None
    except RecursionError:
        raise _too_deep(path) from None
    _check_depth(path, table)
    return table


def _check_depth(path: Path, table: dict[str, Any]) -> None:
    level: list[Any] = [table]
    for _ in range(_DEEPEST):
        inner = [each for value in level for each in _inside(value)]
        level = [value for value in inner if isinstance(value, dict | list)]
    if level:
        raise _too_deep(path)


def _inside(value: Any) -> list[Any]:
    return [*value.values()] if isinstance(value, dict) else value  # pyright: ignore[reportUnknownVariableType]


def _too_deep(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} has tables or lists nested more than {_DEEPEST} deep; correct the file"
    )


def _join(*parts: str) -> str:
    return ".".join(part for part in parts if part)
