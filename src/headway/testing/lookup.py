"""Questions of a test about enqueued jobs, with a database and without."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, cast
from uuid import UUID

from headway._api.apps import apps
from headway._api.registry import Registry
from headway._api.session import Session
from headway.core import codec
from headway.core.definition import Definition
from headway.core.info import EnqueuedJob, JobState
from headway.errors import ConfigError, InvalidInput
from headway.flow import Flow
from headway.store.rows import MadeJob
from headway.task import BoundTask

AnyTask = BoundTask[..., Any] | Flow[Any] | str
"""A task, a flow, or the name of one."""


class Looking:
    """Answers questions about enqueued jobs."""

    @abstractmethod
    def _made(self, task: str | None, conn: Any) -> list[MadeJob]:
        """Return all jobs of a task, or of all tasks, oldest first."""

    def enqueued(self, task: AnyTask | None = None, *, conn: Any = None) -> list[EnqueuedJob]:
        """Return the jobs of a task, or of all tasks, that were enqueued in this test, oldest first.

        They stay in the list when they have run, unless their task has `keep="none"`. With `conn`, the
        test sees what the open transaction of this sync connection has enqueued, too.
        """
        return [_job(made) for made in self._made(None if task is None else name_of(task), conn)]

    def assert_enqueued(self, task: AnyTask, /, *, conn: Any = None, **args: Any) -> EnqueuedJob:
        """Assert that exactly one job of a task was enqueued with these arguments, and return it.

        Arguments that are left out may have any value.
        """
        found = self._matching(task, args, conn)
        if len(found) == 1:
            return found[0]
        wanted = f"{name_of(task)}({_words(args)})"
        problem = (
            f"{wanted} was enqueued {len(found)} times, not once"
            if found
            else (f"{wanted} was not enqueued")
        )
        raise AssertionError("\n".join([problem, *_shown(self.enqueued(conn=conn))]))

    def assert_not_enqueued(self, task: AnyTask, /, *, conn: Any = None, **args: Any) -> None:
        """Assert that no job of a task was enqueued with these arguments."""
        if found := self._matching(task, args, conn):
            wanted = f"{name_of(task)}({_words(args)})"
            raise AssertionError("\n".join([f"{wanted} was enqueued", *_shown(found)]))

    def _matching(self, task: AnyTask, args: Mapping[str, Any], conn: Any) -> list[EnqueuedJob]:
        definition = _definition(name_of(task))
        if definition is not None:
            known = definition.call_signature.parameters
            for name in args:
                if name not in known:
                    raise ConfigError(
                        f"{definition.name} has no parameter {name!r}; it takes {', '.join(known)}"
                    )
        return [job for job in self.enqueued(task, conn=conn) if _fits(job.args, args)]


def name_of(task: AnyTask) -> str:
    """Return the name of a task or flow. Raise ConfigError for anything else."""
    if isinstance(task, str):
        return task
    if isinstance(task, BoundTask):
        return task.definition.name
    if isinstance(task, Flow):  # pyright: ignore[reportUnnecessaryIsInstance]
        return task.name
    raise ConfigError(f"{task!r} is not a task; give what @hw.task or hw.flow made, or its name")


class TestedApp(NamedTuple):
    """The parts of an app."""

    session: Session
    registry: Registry


def apps_with_tasks() -> list[TestedApp]:
    """Return the apps that a worker can run."""
    return [TestedApp(app.session, app.registry) for app in apps() if app.registry.tasks]


def definitions() -> list[Definition]:
    """Return the definitions of all apps."""
    return [one for app in apps_with_tasks() for one in app.registry.definitions().values()]


def _definition(task: str) -> Definition | None:
    """Return the definition of a task, or of the first step of a flow, in any app."""
    return next((one for one in definitions() if one.name == task and _is_first(one)), None)


def _is_first(definition: Definition) -> bool:
    return definition.flow is None or definition.flow.first() is definition


def _job(made: MadeJob) -> EnqueuedJob:
    args: dict[str, Any] = codec.decode(made.input)
    if (definition := _definition(made.task)) is not None:
        with suppress(InvalidInput):  # other code made the job: its arguments stay plain values
            args = definition.parameters.decode(made.input)
    return EnqueuedJob(
        id=UUID(made.id),
        task=made.task,
        queue=made.queue,
        priority=made.priority,
        state=cast(JobState, made.state.label),
        run_at=made.run_at,
        headers=made.headers or {},
        args=args,
    )


def _fits(args: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(name in args and _same(args[name], value) for name, value in wanted.items())


def _same(found: Any, wanted: Any) -> bool:
    """Return whether two values are equal, or are stored as the same JSON."""
    return bool(found == wanted) or codec.encode(found) == codec.encode(wanted)


def _words(args: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in args.items())


def _shown(jobs: list[EnqueuedJob]) -> list[str]:
    if not jobs:
        return ["no job was enqueued"]
    return ["these were enqueued:", *(f"  {j.task}({_words(j.args)}), {j.state}" for j in jobs)]
