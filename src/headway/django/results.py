"""Django's task library, and its task results as jobs are.

The library is Django 6's own `django.tasks`, else the package `django-tasks` with the same interface.
"""

# pyright: basic, reportMissingTypeStubs=false
from __future__ import annotations

import importlib
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from headway.core import failure
from headway.core.failure import Envelope
from headway.errors import ConfigError


def _library() -> Any:
    for name in ("django.tasks", "django_tasks"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise ConfigError(
        "this version of Django has no django.tasks; install the package django-tasks, which has it"
    )


library: Any = _library()
base: Any = importlib.import_module(f"{library.__name__}.base")
signals: Any = importlib.import_module(f"{library.__name__}.signals")
exceptions: Any = importlib.import_module(f"{library.__name__}.exceptions")
backends: Any = importlib.import_module(f"{library.__name__}.backends.base")
Status: Any = base.TaskResultStatus

_STATUS = {"running": Status.RUNNING, "succeeded": Status.SUCCESSFUL} | dict.fromkeys(
    ("failed", "cancelled", "expired"), Status.FAILED
)
_CLASSES = {
    failure.INVALID_INPUT: "headway.errors.InvalidInput",
    failure.TIMED_OUT: "builtins.TimeoutError",
    failure.CANCELLED: "headway.errors.JobCancelled",
    failure.EXPIRED: "headway.errors.JobExpired",
}
"""Exceptions for failures that no task raised. All others are `JobFailed`."""


def new_result(task: Any, job_id: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Return the result of a job that was just enqueued."""
    return base.TaskResult(
        task=task,
        id=job_id,
        status=Status.READY,
        enqueued_at=None,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=args,
        kwargs=kwargs,
        backend=task.backend,
        errors=[],
        worker_ids=[],
    )


def change(result: Any, **fields: Any) -> None:
    """Set fields of a result, which is frozen for its users."""
    for name, value in fields.items():
        object.__setattr__(result, name, value)


def result_of(task: Any, job: Any) -> Any:
    """Return the result of a job as it is stored."""
    result = new_result(task, str(job.pk), job.input["args"], job.input["kwargs"])
    change(
        result,
        status=_STATUS.get(job.state, Status.READY),
        enqueued_at=job.created_at,
        started_at=job.started_at,
        last_attempted_at=job.started_at,
        finished_at=job.finished_at,
        errors=[_error_of(job.error)] if job.error else [],
        worker_ids=[str(job.worker or "")] * job.attempt,
        _return_value=job.result,
    )
    return result


def enqueued_at(job_id: UUID) -> datetime:
    """Return when a job was enqueued. Its id has the moment, so nobody has to be asked."""
    moment = datetime.fromtimestamp((job_id.int >> 80) / 1000, UTC)
    return moment if settings.USE_TZ else moment.astimezone().replace(tzinfo=None)


def error_from(error: BaseException) -> Any:
    """Return the error that a task raised."""
    return _error_of(failure.envelope_of(error))


def _error_of(envelope: Envelope) -> Any:
    kind: str = envelope["type"]
    if "." not in kind:
        is_raised = "traceback" in envelope and kind not in _CLASSES
        kind = f"builtins.{kind}" if is_raised else _CLASSES.get(kind, "headway.errors.JobFailed")
    words = envelope.get("traceback") or f"{kind}: {envelope.get('message', '')}\n"
    return base.TaskError(exception_class_path=kind, traceback=words)
