"""All apps of this process, and the redirection of all of them during a test.

A redirection sends every app to another database and another clock. The app itself stays as it is: its
tasks, its handles and `hw` are the same objects. Apps that are made meanwhile are redirected, too, and so
are those of child processes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from headway.core.clock import Clock
from headway.errors import ConfigError
from headway.settings import layers
from headway.settings.origin import Origin

_LEASE = "36500d"
"""A worker must not lose its lease because a test moves the clock."""
_ORIGIN = Origin("test", "test", "the headway fixture")


Instead = Callable[[layers.Settings], dict[str, layers.Setting]]
"""Returns settings that override those of an app."""


Overrides = dict[Callable[..., Any], Callable[..., Any]]


class Redirectable(Protocol):
    """The session of an app."""

    overrides: Overrides

    def leave(self) -> dict[str, Any]: ...
    def enter(self, clock: Clock, instead: Instead | None = None, **attributes: Any) -> None: ...
    def resume(self, left: dict[str, Any]) -> None: ...


class App(NamedTuple):
    """The parts of a `Headway`: its session and its registry."""

    session: Any
    registry: Any
    made_in: Redirection | None
    """The redirection in which it was made: that of the same test, or of an earlier one."""


class Place(NamedTuple):
    """The database that an app uses without a redirection. Apps with the same place share a schema."""

    dsn: str | None
    local: str
    schema: str


class _Left(NamedTuple):
    attributes: dict[str, Any]
    overrides: Overrides


@dataclass(slots=True, eq=False)
class Redirection:
    """Sends apps to one database, with a schema for each place that they would use."""

    dsn: str
    schema_for: Callable[[Place], str]
    clock: Clock
    attributes: Mapping[str, Any] | None = None
    """Of every session, in place of a database."""
    schemas: dict[Place, str] = field(default_factory=dict[Place, str])
    """The schemas in use."""
    _used: set[int] = field(default_factory=set[int])
    """The sessions that were used, by their identity."""
    _left: list[tuple[Redirectable, _Left]] = field(
        default_factory=list[tuple[Redirectable, _Left]]
    )

    def apply(self, session: Redirectable) -> None:
        """Redirect an app. What it had opened stays open, and unused."""
        self._left.append((session, _Left(session.leave(), session.overrides)))
        session.overrides = dict(session.overrides)
        if self.attributes is None:
            session.enter(self.clock, partial(self._settings, session))
        else:
            session.enter(self.clock, **self.attributes)

    def concerns(self, app: App) -> bool:
        """Return whether an app takes part in this test.

        One that an earlier test has made does only if it is used. Else nobody holds it any more, and it
        was not collected yet.
        """
        return app.made_in in (None, self) or id(app.session) in self._used

    def _settings(
        self, session: Redirectable, settings: layers.Settings
    ) -> dict[str, layers.Setting]:
        """Return the settings that override those of an app, on its first use."""
        self._used.add(id(session))
        app = settings.app
        place = Place(app.database_url, str(app.local), app.schema)
        if place not in self.schemas:
            self.schemas[place] = self.schema_for(place)
        values = {"database_url": self.dsn, "schema": self.schemas[place], "worker.lease": _LEASE}
        return {key: layers.Setting(key, value, _ORIGIN) for key, value in values.items()}

    def undo(self) -> None:
        """Close what redirected apps have opened, and give them back what they had."""
        while self._left:
            session, left = self._left.pop()
            session.resume(left.attributes)
            session.overrides = left.overrides


@dataclass(frozen=True, slots=True)
class ChildRedirection:
    """The redirection of a worker's process, for its child processes. It can be sent there."""

    dsn: str
    schemas: Mapping[Place, str]
    now: datetime | None

    def apply(self) -> None:
        """Redirect the apps of this process, for as long as it lives."""
        known = dict(self.schemas)
        any_of_them = next(iter(known.values()))
        _begin(Redirection(self.dsn, lambda place: known.get(place, any_of_them), Clock(self.now)))


_apps: WeakKeyDictionary[Any, App] = WeakKeyDictionary()
_redirections: list[Redirection] = []
"""The redirection in force, if there is one."""


def made(owner: object, session: Redirectable, registry: object) -> None:
    """Record a new app. `owner` is the `Headway`."""
    _apps[owner] = App(session, registry, _redirections[0] if _redirections else None)
    for redirection in _redirections:
        redirection.apply(session)


def apps() -> list[App]:
    """Return the apps that take part in the test, those that it has made itself first."""
    found = [app for app in _apps.values() if all(one.concerns(app) for one in _redirections)]
    return sorted(found, key=lambda app: app.made_in is None)


@contextmanager
def redirected(redirection: Redirection) -> Generator[None]:
    """Redirect all apps. Raise ConfigError if they are redirected already."""
    if _redirections:
        raise ConfigError("another test has redirected the apps of this process; run one at a time")
    try:
        _begin(redirection)
        yield
    finally:
        _redirections.clear()
        redirection.undo()


def redirection_for_child() -> ChildRedirection | None:
    """Return the redirection in force, for a child process."""
    for one in _redirections:
        if one.schemas:
            return ChildRedirection(one.dsn, dict(one.schemas), one.clock.now())
    return None


def _begin(redirection: Redirection) -> None:
    _redirections.append(redirection)
    for app in list(_apps.values()):
        redirection.apply(app.session)
