"""The backend of `django.tasks`.

    TASKS = {"default": {"BACKEND": "headway.django.backend.HeadwayBackend"}}

Every function with Django's `@task` becomes a task of `hw` under its dotted path, so pauses, limits and
`headway job list --task` work on it. A job is made in the transaction of the database that has the jobs,
and exists if and only if that commits.
"""

# pyright: basic, reportMissingTypeStubs=false
from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from django.apps import apps
from django.core import checks
from django.core.exceptions import ValidationError
from django.db import connections
from django.utils import timezone
from django.utils.module_loading import import_string

from headway._api.new_job import CallOptions
from headway.django.app import database, hw
from headway.django.attempts import handler
from headway.django.results import (
    backends,
    base,
    change,
    exceptions,
    new_result,
    result_of,
    signals,
)
from headway.task import Task


class HeadwayBackend(backends.BaseTaskBackend):
    """Stores and runs Django's tasks as jobs of `headway.django.hw`.

    `OPTIONS` are options of `@hw.task`, such as `retry`, `timeout` and `keep`. `retry` is 1 by default,
    because code for other backends does not expect that a failed task runs again. The job of a lost
    worker does run again.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Any) -> None:
        """Check a task as Django does, and make it one that workers know."""
        super().validate_task(task)
        self._known(task)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Enqueue a job in the current transaction of the database with the jobs."""
        self.validate_task(task)
        result = new_result(task, "", list(args), dict(kwargs))
        options: CallOptions = {
            "conn": database(),
            "queue": task.queue_name,
            "priority": task.priority,
        }
        if task.run_after is not None:
            options["at"] = _aware(task)
        bound = self._known(task).using(**options)
        job = bound.enqueue_sync(args=result.args, kwargs=result.kwargs)
        change(result, id=str(job.id), enqueued_at=timezone.now())
        signals.task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Return a job as it is stored now, also one of the current transaction."""
        # Tasks are defined, and so this module is imported, before models can be.
        from headway.django.models import StoredJob

        model: Any = StoredJob
        try:
            job = model.objects.using(database()).get(pk=result_id)
            return result_of(self._task_of(job), job)
        except (model.DoesNotExist, ValidationError, ImportError, KeyError, TypeError) as error:
            raise exceptions.TaskResultDoesNotExist(result_id) from error

    def check(self, **kwargs: Any) -> Iterable[checks.CheckMessage]:
        """Report what would keep tasks from being enqueued or found."""
        yield from super().check(**kwargs)
        if not apps.is_installed("headway.django"):
            yield checks.Error(
                "HeadwayBackend needs its app.",
                hint="Add 'headway.django' to INSTALLED_APPS.",
                id="headway.E001",
            )
        if connections[database()].vendor != "postgresql":
            yield checks.Error(
                f"The database {database()!r}, which has the jobs, is not PostgreSQL.",
                hint='Name one that is: HEADWAY = {"DATABASE": "alias"}.',
                id="headway.E002",
            )

    def _known(self, task: Any) -> Task[..., Any]:
        """Return the app's task of a function. It is made when the function becomes a task."""
        path: str = task.module_path
        if path not in hw.tasks:
            run = handler(type(self), path, is_async=inspect.iscoroutinefunction(task.func))
            options: dict[str, Any] = {"retry": 1, **self.options}
            hw.task(name=path, queue=task.queue_name, priority=task.priority, **options)(run)
        known = hw.tasks[path]
        assert isinstance(known, Task), "the name of a flow is not the path of a function"
        return known

    def _task_of(self, job: Any) -> Any:
        """Return the task of a job, as it was enqueued. Raise TypeError if it is not one of Django's."""
        task = import_string(job.task)
        if not isinstance(task, base.Task):
            raise TypeError(f"{job.task} is not a task")
        is_deferred = job.run_at > job.created_at
        return task.using(
            priority=job.priority,
            queue_name=job.queue,
            run_after=job.run_at if is_deferred else None,
            backend=self.alias,
        )


def _aware(task: Any) -> Any:
    """Return when a task may run. Without USE_TZ it is in Django's own time zone."""
    moment = task.run_after
    return timezone.make_aware(moment) if timezone.is_naive(moment) else moment
