"""Variables: those of the process, and those of a .env file that the process does not have.

An empty variable says nothing, and hides one of the same name in .env.
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

_USUAL = "DATABASE_URL"
_NO_SETTINGS = {PROFILE, FILE, "HEADWAY_PG_BIN"}
_MEANT = {
    "HEADWAY_PROFILE": PROFILE,
    "HEADWAY_ENVIRONMENT": PROFILE,
    "HEADWAY_CONFIG_FILE": FILE,
    "HEADWAY_DSN": "HEADWAY_DATABASE_URL",
    "HEADWAY_URL": "HEADWAY_DATABASE_URL",
    "HEADWAY_DB_URL": "HEADWAY_DATABASE_URL",
}
_ALIKE = 0.8
_OF_A_SERVICE = re.compile(r"(?!.*__).*_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)")
"""What Kubernetes sets for every service; one may be called headway-database."""


@dataclass(frozen=True, slots=True)
class Variable:
    """What a variable says, and where it is set."""

    text: str
    origin: Origin


class Environment:
    """The variables that may be of Headway's concern, from the process and from a .env file."""

    def __init__(
        self, directory: Path | None, working: Path | None = None, trusted: int | None = None
    ) -> None:
        """`directory` is where a .env file is looked for; in `working`, one might be expected. It may
        belong to the account `trusted`."""
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
        """Variables that begin like Headway's and are none of its settings."""

    @property
    def profile(self) -> Variable | None:
        """The profile that was asked for."""
        return self._variables.get(PROFILE)

    def given(self) -> list[tuple[Field, Variable]]:
        """The fields that a variable says something about."""
        found: list[tuple[Field, Variable]] = []
        for field in fields().values():
            names = [field.variable, *([_USUAL] if field.key == "database_url" else [])]
            variable = next((self._variables[n] for n in names if n in self._variables), None)
            if variable is not None:
                found.append((field, variable))
        return found

    def refuse_mistakes(self) -> None:
        """ConfigError for a variable that must be meant for a setting, and is none.

        Others may begin with HEADWAY_ too, for reasons of their own.
        """
        for name in self.ignored:
            variable = self._variables[name]
            if _OF_A_SERVICE.fullmatch(name):
                continue
            if close := _close(name):
                hint = f"did you mean {close}?"
            elif section := _section(name):
                there = [f.variable for f in fields().values() if f.section == section]
                hint = f"there are {', '.join(sorted(there))}"
            else:
                continue
            value = shown(name, variable.text)
            raise ConfigError(f"{variable.origin.place}: no setting is {name} (= {value}); {hint}")

    def _read(self, path: Path) -> None:
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                text, problem = file.read(), distrust(path, os.fstat(file.fileno()), self._trusted)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return
        except OSError as error:
            # A service may be given its variables by who may read the file, and not be one of them.
            self.notes.append(f"{path} is left out: it cannot be read ({error.strerror})")
            return
        found = {n: e for n, e in dotenv.parse(text, os.environ).items() if _is_ours(n)}
        if problem is not None:
            if all(name in os.environ for name in found):
                return  # it has nothing to say: the environment goes before it
            raise ConfigError(f"{problem}, or set what is in it in the environment")
        self.file = path
        for name, entry in found.items():
            place = f"{path}, line {entry.line}"
            if entry.value is None:
                raise ConfigError(f"{place}: {name} begins with a quote and does not end with it")
            if name == FILE:
                raise ConfigError(
                    f"{place}: {FILE} names the file beside which .env is looked for; "
                    "set it in the environment itself"
                )
            self._variables[name] = Variable(
                entry.value.strip(), Origin("environment", place, name)
            )

    def _mention(self, path: Path, directory: Path) -> None:
        """Says of a .env file that does not count that it does not, if it says something to us."""
        try:
            found = dotenv.parse(path.read_text("utf-8", errors="replace"), os.environ)
        except OSError:
            return
        if any(map(_is_ours, found)):
            self.notes.append(
                f"{path} is not read: .env is looked for beside the configuration, in {directory}"
            )


def configuration_file() -> str | None:
    """The file that $HEADWAY_CONFIG names."""
    return os.environ.get(FILE) or None


def _is_ours(name: str) -> bool:
    return name.startswith(PREFIX) or name == _USUAL


def _is_known(name: str) -> bool:
    return name in {_USUAL, *_NO_SETTINGS, *(field.variable for field in fields().values())}


def _close(name: str) -> str | None:
    """The variable that was meant, if one is much like this. What all begin with does not count."""
    plain = name.removeprefix(PREFIX).lower()
    if elsewhere := [field.variable for field in fields().values() if field.name == plain]:
        return " or ".join(elsewhere)
    known = [*_MEANT, *(field.variable for field in fields().values())]
    rests = {variable.removeprefix(PREFIX): variable for variable in known}
    close = get_close_matches(name.removeprefix(PREFIX), rests, 1, _ALIKE)
    return _MEANT.get(rests[close[0]], rests[close[0]]) if close else None


def _section(name: str) -> str | None:
    """The section whose variable this looks like, if it does."""
    section, parted, _ = name.removeprefix(PREFIX).partition("__")
    return section.lower() if parted and section and section.lower() in SECTIONS else None
