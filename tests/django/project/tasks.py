"""Tasks of both kinds, found because the module is called tasks."""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import connection

from headway.django import hw
from headway.django.results import library

task: Any = library.task


def backend_pid() -> int:
    """Return the process of the server that serves this thread's connection."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        return int(cursor.fetchone()[0])


@hw.task(retry=1)
def in_thread() -> int:
    return backend_pid()


@hw.task(retry=1)
async def on_loop() -> int:
    return await sync_to_async(backend_pid)()


@hw.task(retry=1, executor="process")
def in_process() -> int:
    return backend_pid()


@hw.task(retry=1)
async def asks_orm() -> int:
    return await User.objects.acount()


@hw.task
def takes(user: Any) -> None: ...


@task()
def noop(*args: Any, **kwargs: Any) -> None:
    return None


@task()
async def noop_async(*args: Any, **kwargs: Any) -> None:
    return None


@task()
def answer() -> int:
    return 42


@task()
def fails() -> None:
    raise ValueError("it failed")


@task()
async def exits() -> None:
    raise SystemExit("it ended")


@task()
def complex_answer() -> Any:
    return lambda: True


@task(takes_context=True, backend="again")
def second_time(context: Any, expected: str) -> list[Any]:
    if context.attempt == 1:
        raise ValueError("not yet")
    return [context.attempt, context.task_result.id, expected]
