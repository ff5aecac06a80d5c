"""The tasks, flows and declared schedules of one app."""

from __future__ import annotations

from typing import Any

from headway._api.declared_schedules import DeclaredSchedules
from headway._api.session import Session
from headway.core.definition import Definition
from headway.core.schedule import Scheduled
from headway.engine.maintenance.declarations import DeclaredByCode
from headway.errors import ConfigError, UnknownTask
from headway.flow import Flow
from headway.task import Task

AnyTask = Task[..., Any] | Flow[Any]


class Registry:
    """The tasks and schedules that the code of one app defines."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._schedules = DeclaredSchedules()
        self.tasks: dict[str, AnyTask] = {}

    def add(self, name: str, task: AnyTask, schedule: Scheduled | None) -> None:
        """Add a task or flow. Raise ConfigError if its name or that of a schedule is taken."""
        names = [name, *task.former_names]
        for each in names:
            if each in self._session.tasks or names.count(each) > 1:
                raise ConfigError(
                    f"there is a task or flow {each!r} already, or one was called so; give this one "
                    "another name"
                )
        self._schedules.add(task, name, schedule)
        self.tasks[name] = task
        self._session.tasks |= dict.fromkeys(names, task)

    def get(self, name: str) -> AnyTask:
        """Return the task or flow of this name. Raise UnknownTask if there is none."""
        if not isinstance(name, str) or name not in self.tasks:  # pyright: ignore[reportUnnecessaryIsInstance]
            known = ", ".join(sorted(self.tasks)) or "none"
            raise UnknownTask(f"no task {name!r} in this app; it knows {known}")
        return self.tasks[name]

    def definitions(self) -> dict[str, Definition]:
        """Return the definitions that a worker runs, by handler."""
        found = (one for task in self.tasks.values() for one in task.definitions())
        return {definition.handler: definition for definition in found}

    def declared(self) -> DeclaredByCode:
        """Return the schedules that a worker writes down."""
        app = self._session.settings.app
        return DeclaredByCode(
            self._schedules.puts(self._session.max_payload_bytes),
            owner=app.name or "",
            clean_up=app.schedules,
            tasks=list(self.tasks),
        )
