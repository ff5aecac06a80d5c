"""The handler of a task of Django's: its function, between Django's signals."""

# pyright: basic, reportMissingTypeStubs=false
from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.utils import timezone
from django.utils.module_loading import import_string

from headway.core.context import Context
from headway.django.results import (
    Status,
    base,
    change,
    enqueued_at,
    error_from,
    new_result,
    signals,
)
from headway.errors import Fatal


def handler(sender: type, path: str, *, is_async: bool) -> Callable[..., Any]:
    """Return the handler of the task at a dotted path. `sender` is the class that sends signals."""

    async def run_async(ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> Any:
        attempt = _Attempt(sender, path, ctx, args, kwargs)
        await sync_to_async(attempt.begin)()
        try:
            value = base.normalize_json(await attempt.function(*attempt.arguments, **kwargs))
        except (Exception, SystemExit) as error:
            await sync_to_async(attempt.fail)(error)
            raise
        await sync_to_async(attempt.succeed)(value)
        return value

    def run(ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> Any:
        attempt = _Attempt(sender, path, ctx, args, kwargs)
        attempt.begin()
        try:
            value = base.normalize_json(attempt.function(*attempt.arguments, **kwargs))
        except (Exception, SystemExit) as error:
            attempt.fail(error)
            raise
        attempt.succeed(value)
        return value

    return run_async if is_async else run


class _Attempt:
    """One attempt: the result that signals and the task's context show, as far as it is known by then."""

    def __init__(
        self, sender: type, path: str, ctx: Context, args: list[Any], kwargs: dict[str, Any]
    ) -> None:
        task = import_string(path)
        self._sender = sender
        self._is_last = ctx.attempt >= ctx.max_attempts
        self.function: Callable[..., Any] = task.func
        self.result = new_result(task, str(ctx.job_id), args, kwargs)
        now = timezone.now()
        change(
            self.result,
            status=Status.RUNNING,
            enqueued_at=enqueued_at(ctx.job_id),
            started_at=now,
            last_attempted_at=now,
            worker_ids=[f"{socket.gethostname()}:{os.getpid()}"] * ctx.attempt,
        )
        context = [base.TaskContext(task_result=self.result)] if task.takes_context else []
        self.arguments = [*context, *args]

    def begin(self) -> None:
        signals.task_started.send(self._sender, task_result=self.result)

    def succeed(self, value: Any) -> None:
        self._finish(Status.SUCCESSFUL, _return_value=value)

    def fail(self, error: BaseException) -> None:
        """Say that the task has failed, unless another attempt follows."""
        errors = [*self.result.errors, error_from(error)]
        if self._is_last or isinstance(error, Fatal):
            self._finish(Status.FAILED, errors=errors)

    def _finish(self, status: Any, **fields: Any) -> None:
        change(self.result, status=status, finished_at=timezone.now(), **fields)
        signals.task_finished.send(self._sender, task_result=self.result)
