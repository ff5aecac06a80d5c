"""Django's connections around each attempt, as Django itself treats them around each request.

- A plain function runs in a thread of the worker's pool. Before and after it, connections are closed that
  are broken or older than CONN_MAX_AGE. One that is kept is checked before its next query, so that no
  job fails because the server restarted between two jobs.
- The ORM calls of an async attempt run in a thread of its own, as those of an async view do. When the
  attempt ends, the connections of that thread are closed.
"""

# pyright: basic, reportMissingTypeStubs=false
from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Any
from weakref import WeakSet

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.core.cache import close_caches

from django import db
from headway.core.current import JobInfo
from headway.core.hooks import CallNext, SyncCallNext


def around_plain(_: JobInfo, call_next: SyncCallNext) -> Any:
    """Leave no broken connection to a plain function, and none to the next one."""
    db.reset_queries()
    _refresh()
    try:
        return call_next()
    finally:
        _refresh()
        close_caches()


async def around_attempt(_: JobInfo, call_next: CallNext) -> Any:
    """Give an attempt a thread of its own for sync code. asgiref starts it when it is needed."""
    # Not `async with`: leaving it would wait for a query that a stopped attempt no longer needs.
    context = ThreadSensitiveContext()
    token = SyncToAsync.thread_sensitive_context.set(context)
    try:
        value = await call_next()
    except asyncio.CancelledError:
        _end(context)
        raise
    except BaseException:
        await _closed(context)
        raise
    else:
        await _closed(context)
        return value
    finally:
        SyncToAsync.thread_sensitive_context.reset(token)


_kept: WeakSet[Any] = WeakSet()
"""Connections that threads keep for their next job, because of CONN_MAX_AGE."""


def close_kept() -> None:
    """Close the connections that threads have kept, those of ended threads too; no job may run."""
    for connection in list(_kept):
        connection.inc_thread_sharing()
        connection.close()
        connection.dec_thread_sharing()
    _kept.clear()


def _refresh() -> None:
    for connection in db.connections.all(initialized_only=True):
        connection.close_if_unusable_or_obsolete()
        if connection.connection is not None:
            connection.health_check_enabled = True
            _kept.add(connection)


def _end(context: ThreadSensitiveContext) -> Any:
    """Close the connections of the context's thread after what it does now, and end it."""
    executor: Executor | None = SyncToAsync.context_to_thread_executor.pop(context, None)
    if executor is None:
        return None
    closing = executor.submit(_close)
    executor.shutdown(wait=False)
    return closing


async def _closed(context: ThreadSensitiveContext) -> None:
    if (closing := _end(context)) is not None:
        await asyncio.shield(asyncio.wrap_future(closing))


def _close() -> None:
    db.connections.close_all()
    close_caches()
