"""Every exception that Headway raises on purpose.

    HeadwayError
    ├── ConfigError            an option, a duration, a DSN or a definition that cannot be right
    ├── DatabaseError          the server refused something lasting (rights, a missing schema, bad SQL)
    │   ├── SchemaMismatch     the schema is missing, older or too new for this library
    │   └── StandbyRefused     the server is a read-only standby
    ├── DatabaseUnavailable    the server cannot be reached now; trying again later may work
    ├── EmbeddedUnavailable    no embedded server can be started here
    ├── InvalidInput           arguments that do not fit the task's signature
    │   └── PayloadTooLarge    a payload beyond the limit
    ├── KeyTaken               a unique key that another job has, with policy "reject"
    ├── UnknownTask            no task of this name is registered in this app
    ├── JobNotFound            no job of this id, live or archived
    ├── ScheduleNotFound       no schedule of this name
    ├── ResultTimeout          the job did not finish within the time given to result()
    ├── JobFailed              result() of a job that failed; carries the stored error
    │   ├── JobCancelled       ... that was cancelled
    │   └── JobExpired         ... that expired while it waited
    └── (raised by handlers, never by Headway itself)
        ├── Fatal              fail now, whatever attempts are left
        └── Snooze             run again later, at no cost of an attempt
    Interrupted                (a BaseException) raised inside the thread of a handler that is to stop

Messages end with what to do next. The stored kinds of failure that are not Python exceptions of a
handler (a timeout, a crash, ...) are names in `headway.core.failure`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID


class HeadwayError(Exception):
    """The root of all of them."""


class ConfigError(HeadwayError):
    """An option, a duration, a DSN or a definition that cannot be right."""


class DatabaseError(HeadwayError):
    """The server refused something, and will refuse it again."""

    sqlstate: str | None = None


class SchemaMismatch(DatabaseError):
    """The schema is missing, older or too new for this library."""


class StandbyRefused(DatabaseError):
    """The server is a read-only standby; Headway needs the primary."""


class DatabaseUnavailable(HeadwayError):
    """The server cannot be reached now; trying again later may work."""


class EmbeddedUnavailable(HeadwayError):
    """No embedded server can be started here."""


class InvalidInput(HeadwayError):
    """Arguments that do not fit the task's signature, or that cannot be stored as JSON."""


class PayloadTooLarge(InvalidInput):
    """A payload beyond the configured limit."""


class KeyTaken(HeadwayError):
    """Another job has the unique key; `job_id` is that job."""

    def __init__(self, message: str, job_id: UUID) -> None:
        super().__init__(f"{message}; wait for it, or enqueue with policy skip or replace")
        self.job_id = job_id


class UnknownTask(HeadwayError):
    """No task of this name is registered in this app."""


class JobNotFound(HeadwayError):
    """No job of this id, live or archived."""

    def __init__(self, job_id: UUID | str) -> None:
        super().__init__(
            f"no job {job_id}: it was never committed, was not kept, or retention removed it"
        )
        self.job_id = job_id


class ScheduleNotFound(HeadwayError):
    """No schedule of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no schedule {name!r}; `headway schedule list` shows which there are")
        self.name = name


class ResultTimeout(HeadwayError, TimeoutError):
    """The job did not finish within the time given to `result()`. The job itself goes on."""


class JobFailed(HeadwayError):
    """The job ended without a result; `error` is what is stored about it."""

    def __init__(self, job_id: UUID, state: str, error: dict[str, Any] | None) -> None:
        self.job_id = job_id
        self.state = state
        self.error = error or {}
        reason = self.error.get("message") or "no reason was stored"
        kind = self.error.get("type")
        super().__init__(f"job {job_id} {state}: {f'{kind}: ' if kind else ''}{reason}")


class JobCancelled(JobFailed):
    """The job was cancelled."""


class JobExpired(JobFailed):
    """The job's time to live passed while it waited."""


class Fatal(HeadwayError):
    """Raise it in a handler: the job fails now, whatever attempts are left.

    >>> raise Fatal("no such customer")
    Traceback (most recent call last):
    headway.errors.Fatal: no such customer
    """


class Snooze(HeadwayError):
    """Raise it in a handler: run again after `delay`, at no cost of an attempt.

    >>> raise Snooze("5m")
    Traceback (most recent call last):
    headway.errors.Snooze: 5m
    """

    def __init__(self, delay: str | float | timedelta) -> None:
        super().__init__(delay)
        self.delay = delay


class Interrupted(BaseException):
    """Raised inside the thread of a plain handler that is to stop and did not do so within its
    `stop_grace`. Catch it to clean up, and raise it again; it is not an Exception, so that `except
    Exception` does not swallow it."""
