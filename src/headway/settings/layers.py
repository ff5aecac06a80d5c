"""Combines the layers: every field's value and its origin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any, TypeVar

from headway.core.config import (
    AppOptions,
    HealthOptions,
    LogOptions,
    Retention,
    RetentionOptions,
    SupervisorOptions,
    WorkerOptions,
)
from headway.errors import ConfigError
from headway.settings import files
from headway.settings.environment import Environment
from headway.settings.fields import SECTIONS, Field, fields, suggestion
from headway.settings.kinds import WEIGHTS, is_none
from headway.settings.notation import QueueNotation, read_queues, read_queues_text
from headway.settings.origin import DEFAULT, Origin, masked

T = TypeVar("T")

_QUEUES = "worker.queues"
_DEDICATED = "worker.dedicated"
_OF_OPTION = {"--dsn": "database_url", "--schema": "schema"}


@dataclass(frozen=True, slots=True)
class Setting:
    """A field's value and its origin."""

    key: str
    value: Any = field(repr=False)
    origin: Origin

    @property
    def shown(self) -> Any:
        """The value with its secrets hidden."""
        return masked(self.key, self.value)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of an app, field by field."""

    values: Mapping[str, Setting]
    """Every field by its key, `worker.concurrency`."""
    file: Path | None
    env_file: Path | None
    profile: str | None
    directory: Path | None
    """The directory where the search for a file began."""
    notes: tuple[str, ...]
    """Notes for people about files that were ignored."""
    ignored: tuple[str, ...]
    """Variables that begin with HEADWAY_ and are not settings."""

    def __getitem__(self, key: str) -> Setting:
        return self.values[key]

    @property
    def app(self) -> AppOptions:
        return _made(AppOptions, self.values)

    @property
    def retention(self) -> Retention:
        return _made(RetentionOptions, self.values).rules()

    @property
    def supervisor(self) -> SupervisorOptions:
        return _made(SupervisorOptions, self.values)

    @property
    def log(self) -> LogOptions:
        return _made(LogOptions, self.values)

    @property
    def health(self) -> HealthOptions:
        return _made(HealthOptions, self.values)

    def worker(self, given: Mapping[str, Any] | None = None) -> WorkerOptions:
        """Return a worker's options: its arguments, else the configured values."""
        arguments = in_code({f"worker.{name}": value for name, value in (given or {}).items()})
        return _made(WorkerOptions, {**self.values, **arguments})


def load(
    code: Mapping[str, Setting] | None = None, command_line: Mapping[str, Setting] | None = None
) -> Settings:
    """Read files and the environment, combine the layers and check the result.

    Every call reads everything again.
    """
    file, notes = files.find_file()
    directory = files.working_directory()
    environment = (
        Environment(directory)
        if file is None
        else Environment(file.path.parent, directory, file.trusted)
    )
    environment.refuse_mistakes()
    values = {key: Setting(key, field.default, DEFAULT) for key, field in fields().items()}
    profile = environment.profile
    if file is not None:
        values |= _from_file(file.given(), file.path.parent)
        for given in file.profiles().values():
            _from_file(given, file.path.parent)  # check all of them, also those not in use
    if profile is not None:
        if file is None and profile.text not in files.BUILT_IN:
            raise files.no_profile(profile)
        built_in = files.BUILT_IN.get(profile.text, {})
        values |= {key: Setting(key, value, profile.origin) for key, value in built_in.items()}
        if file is not None:
            values |= _from_file(file.profile(profile), file.path.parent)
    values |= _together(
        _from_text(field, variable.text, variable.origin) for field, variable in environment.given()
    )
    values |= {**(code or {}), **(command_line or {})}
    settings = Settings(
        values,
        file=None if file is None else file.path,
        env_file=environment.file,
        profile=None if profile is None else profile.text,
        directory=directory,
        notes=(*notes, *environment.notes),
        ignored=tuple(environment.ignored),
    )
    for options in SECTIONS.values():
        _made(options, values)
    return settings


def of_app(
    retention: Retention | None, worker: Mapping[str, Any] | None, **given: Any
) -> dict[str, Setting]:
    """Return the layer of an app's arguments. None means that an argument was not given."""
    keys = {key: value for key, value in given.items() if value is not None}
    if worker is not None and not isinstance(worker, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(
            f"worker={worker!r} is not a mapping of options; write it like {{'concurrency': 20}}"
        )
    if retention is not None and not isinstance(retention, Retention):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(
            f"retention={retention!r} is not a Retention; write it like Retention(succeeded='3d')"
        )
    if retention is not None:
        rules = {f.name: getattr(retention, f.name) for f in fields_of(retention)}
        keys |= {f"retention.{name}": keep for name, keep in rules.items() if keep is not None}
    keys |= {f"worker.{name}": value for name, value in (worker or {}).items()}
    layer = in_code(keys)
    defaults = {key: Setting(key, field.default, DEFAULT) for key, field in fields().items()}
    for options in SECTIONS.values():
        _made(options, defaults | layer)  # so that an invalid value raises where it is written
    return layer


def in_code(given: Mapping[str, Any]) -> dict[str, Setting]:
    """Return the layer of values from code. Raise ConfigError for an unknown field or invalid value."""
    values: dict[str, Setting] = {}
    for key, value in given.items():
        section, _, name = key.rpartition(".")
        origin = Origin("code", "code", key)
        if key not in fields():
            raise origin.refuse(value, f"is not a setting; {suggestion(section, name)}")
        if fields()[key].kind is WEIGHTS and isinstance(value, list):
            values = _together([values, _from_notation(fields()[key], value, origin)])  # pyright: ignore[reportUnknownArgumentType]
            continue
        if not fields()[key].kind.fits(value):
            raise _unfit(fields()[key], value, origin)
        values[key] = _not_empty(Setting(key, value, origin))
    return values


def on_command_line(given: Mapping[str, Any]) -> dict[str, Setting]:
    """Return the layer of a command's options: `{"--schema": "jobs"}`. None means not given."""
    return {
        key: _not_empty(Setting(key, value, Origin("command line", "command line", option)))
        for option, value in given.items()
        for key in (_OF_OPTION[option],)
        if value is not None
    }


def _not_empty(setting: Setting) -> Setting:
    if setting.key == "database_url" and setting.value == "":
        raise setting.origin.refuse("", "is empty; give an address, or leave it out")
    return setting


def _from_file(given: Iterable[files.Given], directory: Path) -> dict[str, Setting]:
    return _together(_from_toml(g.field, g.value, g.origin, directory) for g in given)


def _from_toml(field: Field, value: Any, origin: Origin, directory: Path) -> dict[str, Setting]:
    if field.kind is WEIGHTS and isinstance(value, str | list):
        return _from_notation(field, value, origin)  # pyright: ignore[reportUnknownArgumentType]
    if is_none(value) and field.kind.fits(None):
        value = None
    if not field.kind.fits(value):
        raise _unfit(field, value, origin)
    if field.key in ("local", "log.config") and value is not None:
        value = directory / files.expanded(value, origin)
    return {field.key: Setting(field.key, value, origin)}


def _together(reads: Iterable[dict[str, Setting]]) -> dict[str, Setting]:
    """Return one layer. The queue notation sets two fields, and one of them may also be set itself."""
    values: dict[str, Setting] = {}
    for key, setting in (item for read in reads for item in read.items()):
        if key in values and values[key].value and setting.value:
            raise setting.origin.refuse(
                setting.value, f"and {values[key].origin} both set {key}; keep only one"
            )
        if key not in values or setting.value:
            values[key] = setting
    return values


def _from_text(field: Field, text: str, origin: Origin) -> dict[str, Setting]:
    text = text.strip()
    if field.kind is WEIGHTS:
        return _from_notation(field, text, origin)
    try:
        value = field.kind.from_text(text)
    except ValueError:
        raise _unfit(field, text, origin) from None
    if not field.kind.fits(value):
        raise _unfit(field, text, origin)
    return {field.key: Setting(field.key, value, origin)}


def _from_notation(field: Field, value: str | list[Any], origin: Origin) -> dict[str, Setting]:
    """Parse queues as the command line writes them: each is shared or has slots of its own."""
    if field.key not in (_QUEUES, _DEDICATED):
        raise _unfit(field, value, origin)
    try:
        read = read_queues_text(value) if isinstance(value, str) else _read_list(value)
    except ConfigError as error:
        raise origin.refuse(value, f"is invalid: {error}") from None
    found = {_QUEUES: read.queues, _DEDICATED: read.dedicated}
    if field.key == _DEDICATED and not read.queues:
        found.pop(_QUEUES)
    elif field.key == _DEDICATED:
        raise origin.refuse(value, "must set the slots of each queue; write it like 'reports=2'")
    return {key: Setting(key, value, origin) for key, value in found.items() if key in fields()}


def _read_list(entries: list[Any]) -> QueueNotation:
    if not all(isinstance(entry, str) for entry in entries):
        raise ConfigError("each entry must be text, like 'mail:3'")
    return read_queues(entries)


def _unfit(field: Field, value: Any, origin: Origin) -> ConfigError:
    return origin.refuse(value, f"is invalid: expected {field.kind.words}")


def _made(options: type[T], values: Mapping[str, Setting]) -> T:
    """Return the section's dataclass, which checks itself. An error names the origin of the value."""
    mine = [field for field in fields().values() if SECTIONS[field.section] is options]
    try:
        return options(**{field.name: values[field.key].value for field in mine})
    except ConfigError as error:
        for field in mine:
            setting = values[field.key]
            if setting.origin is not DEFAULT:
                _blame(options, field, setting, error)
        origins = {str(values[f.key].origin) for f in mine if values[f.key].origin is not DEFAULT}
        raise ConfigError(f"{error} (set by {', '.join(sorted(origins))})") from None


def _blame(options: type, field: Field, setting: Setting, error: ConfigError) -> None:
    """Raise the error with its origin, if this value alone causes it."""
    try:
        options(**{field.name: setting.value})
    except ConfigError as alone:
        if str(alone) != str(error):
            return
        if setting.origin.layer == "code":
            raise alone from None  # the traceback shows where it was written
        raise setting.origin.refuse(setting.value, f"is invalid: {error}") from None
