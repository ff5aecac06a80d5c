"""Environment variables: those of the process, then those of a .env file.

An empty variable counts as unset, but it hides a variable of the same name in .env.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from headway.errors import ConfigError
from headway.settings import dotenv
from headway.settings.fields import PREFIX, SECTIONS, Field, fields
from headway.settings.origin import Origin, shown
from headway.settings.trust import distrust

PROFILE = "HEADWAY_ENV"
FILE = "HEADWAY_CONFIG"

_DATABASE_URL = "DATABASE_URL"
_NOT_SETTINGS = {PROFILE, FILE, "HEADWAY_PG_BIN"}
_MEANT = {
    "HEADWAY_PROFILE": PROFILE,
    "HEADWAY_ENVIRONMENT": PROFILE,
    "HEADWAY_CONFIG_FILE": FILE,
    "HEADWAY_DSN": "HEADWAY_DATABASE_URL",
    "HEADWAY_URL": "HEADWAY_DATABASE_URL",
    "HEADWAY_DB_URL": "HEADWAY_DATABASE_URL",
}
_ALIKE = 0.8
_KUBERNETES = re.compile(r"(?!.*__).*_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)")
"""Kubernetes sets such variables for every service, and a service may be called headway-database."""


@dataclass(frozen=True, slots=True)
class Variable:
    """The text of a variable, and where it is set."""

    text: str
    origin: Origin


class Environment:
    """The variables that may belong to Headway, from the process and from a .env file."""

    def __init__(
        self, directory: Path | None, working: Path | None = None, trusted: int | None = None
    ) -> None:
        """Read the .env file of `directory`, which may belong to the account `trusted`.

        A user might expect one in `working`: mention it if it is ignored.
        """
        self.notes: list[str] = []
        self._trusted = trusted
        self.file: Path | None = None
        self._variables: dict[str, Variable] = {}
        if directory is not None:
            self._read(directory / ".env")
            if working is not None and working.resolve() != directory.resolve():
                self._mention(working / ".env", directory)
        for name, text in os.environ.items():
            if _is_ours(name):
                origin = Origin("environment", "environment", name)
                self._variables[name] = Variable(text.strip(), origin)
        self._variables = {n: v for n, v in self._variables.items() if v.text}
        self.ignored = [name for name in self._variables if not _is_known(name)]
        """Variables with Headway's prefix that are not settings."""

    @property
    def profile(self) -> Variable | None:
        """The requested profile."""
        return self._variables.get(PROFILE)

    def given(self) -> list[tuple[Field, Variable]]:
        """Return the fields that a variable sets."""
        found: list[tuple[Field, Variable]] = []
        for field in fields().values():
            names = [field.variable, *([_DATABASE_URL] if field.key == "database_url" else [])]
            variable = next((self._variables[n] for n in names if n in self._variables), None)
            if variable is not None:
                found.append((field, variable))
        return found

    def refuse_mistakes(self) -> None:
        """Raise ConfigError for a variable that looks like a misspelled setting.

        Other programs may use variables that begin with HEADWAY_, so the rest is left alone.
        """
        for name in self.ignored:
            variable = self._variables[name]
            if _KUBERNETES.fullmatch(name):
                continue
            if close := _close(name):
                hint = f"did you mean {close}?"
            elif section := _section(name):
                there = [f.variable for f in fields().values() if f.section == section]
                hint = f"the variables are {', '.join(sorted(there))}"
            else:
                continue
            value = shown(name, variable.text)
            raise ConfigError(
                f"{variable.origin.place}: unknown setting {name} (= {value}); {hint}"
            )

    def _read(self, path: Path) -> None:
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                text, problem = file.read(), distrust(path, os.fstat(file.fileno()), self._trusted)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return
        except OSError as error:
            # A service manager may read the file and pass on the variables, while the service itself
            # may not read it.
            self.notes.append(f"{path} is ignored: it cannot be read ({error.strerror})")
            return
        found = {n: e for n, e in dotenv.parse(text, os.environ).items() if _is_ours(n)}
        if problem is not None:
            if all(name in os.environ for name in found):
                return  # the environment overrides all of it
            raise ConfigError(f"{problem}, or set its variables in the environment")
        self.file = path
        for name, entry in found.items():
            place = f"{path}, line {entry.line}"
            if entry.value is None:
                raise ConfigError(f"{place}: {name} has an opening quote only; add the closing one")
            if name == FILE:
                raise ConfigError(
                    f"{place}: {FILE} cannot be set in .env, because it decides which .env is read; "
                    "set it in the environment itself"
                )
            self._variables[name] = Variable(
                entry.value.strip(), Origin("environment", place, name)
            )

    def _mention(self, path: Path, directory: Path) -> None:
        """Add a note about a .env file that is ignored although it sets variables of Headway's."""
        try:
            found = dotenv.parse(path.read_text("utf-8", errors="replace"), os.environ)
        except OSError:
            return
        if any(map(_is_ours, found)):
            self.notes.append(
                f"{path} is not read: .env must be in the directory of the configuration, {directory}"
            )


def configuration_file() -> str | None:
    """Return the file that $HEADWAY_CONFIG names."""
    return os.environ.get(FILE) or None


def _is_ours(name: str) -> bool:
    return name.startswith(PREFIX) or name == _DATABASE_URL


def _is_known(name: str) -> bool:
    return name in {_DATABASE_URL, *_NOT_SETTINGS, *(field.variable for field in fields().values())}


def _close(name: str) -> str | None:
    """Return the variable that was probably meant, or None. The common prefix does not count."""
    plain = name.removeprefix(PREFIX).lower()
    if elsewhere := [field.variable for field in fields().values() if field.name == plain]:
        return " or ".join(elsewhere)
    known = [*_MEANT, *(field.variable for field in fields().values())]
    rests = {variable.removeprefix(PREFIX): variable for variable in known}
    close = get_close_matches(name.removeprefix(PREFIX), rests, 1, _ALIKE)
    return _MEANT.get(rests[close[0]], rests[close[0]]) if close else None


def _section(name: str) -> str | None:
    """Return the section to which this variable seems to belong, or None."""
    section, parted, _ = name.removeprefix(PREFIX).partition("__")
    return section.lower() if parted and section and section.lower() in SECTIONS else None
