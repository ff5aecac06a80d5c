"""The preparation of a worker's child processes, before they can run its tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headway._api.apps import ChildRedirection
from headway.core.definition import Definition
from headway.engine import logs
from headway.settings import files


class DeclaresSchedules(Protocol):
    """A task or a flow."""

    def definitions(self) -> list[Definition]: ...


class Loaded(Protocol):
    """An app that was imported."""

    @property
    def tasks(self) -> Mapping[str, DeclaresSchedules]: ...


@dataclass(frozen=True, slots=True)
class ChildPreparation:
    """Makes a child process of a worker find what the worker did. It can be sent there."""

    directory: Path | None
    load_again: Callable[[], Loaded] | None
    logging: logs.LogSetUp | None
    redirection: ChildRedirection | None = None
    """Where a test has sent the apps of the worker's process."""

    @property
    def loads_app(self) -> bool:
        """Whether the child gets the definitions of the whole app."""
        return self.load_again is not None

    def __call__(self) -> dict[str, Definition]:
        """Return the app's definitions by handler; none if the app cannot be loaded again."""
        files.look_from(self.directory)
        if self.logging is not None:
            self.logging.apply()
        if self.redirection is not None:
            self.redirection.apply()
        if self.load_again is None:
            return {}
        declared = self.load_again().tasks.values()
        return {found.handler: found for task in declared for found in task.definitions()}
