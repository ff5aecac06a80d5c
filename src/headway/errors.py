"""Every exception that Headway raises on purpose.

    HeadwayError
    ├── ConfigError            an invalid option, duration, DSN or definition
    ├── DatabaseError          the server refused a statement for a lasting reason (rights, schema, SQL)
    │   ├── SchemaMismatch     the schema is missing, older or too new for this library
    │   └── StandbyRefused     the server is a read-only standby
    ├── DatabaseUnavailable    the server cannot be reached now; trying again later may work
    ├── EmbeddedUnavailable    an embedded server cannot be started here
    ├── InvalidInput           arguments that do not fit the task's signature
    │   └── PayloadTooLarge    a payload larger than the limit
    ├── KeyTaken               another job has the unique key, and the policy is "reject"
    ├── UnknownTask            no task with this name is registered in this app
    ├── JobNotFound            no job with this id, live or archived
    ├── ScheduleNotFound       no schedule with this name
    ├── ResultTimeout          the job did not finish within the time given to result()
    ├── JobFailed              result() of a job that failed; carries the stored error
    │   ├── JobCancelled       ... that was cancelled
    │   └── JobExpired         ... that expired while it waited
    └── (raised by handlers, never by Headway itself)
        ├── Fatal              fail now, even if attempts are left
        └── Snooze             run again later, without using an attempt
    Interrupted                (a BaseException) raised inside the thread of a handler that must stop

Messages end with what to do next. The stored kinds of failure that are not Python exceptions of a
handler (a timeout, a crash, ...) are names in `headway.core.failure`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID


class HeadwayError(Exception):
    """The base class of Headway's errors."""


class ConfigError(HeadwayError):
    """An invalid option, duration, DSN or definition."""


class DatabaseError(HeadwayError):
    """The server refused a statement, and will refuse it again."""

    sqlstate: str | None = None


class SchemaMismatch(DatabaseError):
    """The schema is missing, older or too new for this library."""


class StandbyRefused(DatabaseError):
    """The server is a read-only standby; Headway needs the primary."""


class DatabaseUnavailable(HeadwayError):
    """The server cannot be reached now; trying again later may work."""


class EmbeddedUnavailable(HeadwayError):
    """An embedded server cannot be started here."""


class InvalidInput(HeadwayError):
    """Arguments that do not fit the task's signature, or that cannot be stored as JSON."""


class PayloadTooLarge(InvalidInput):
    """A payload larger than the configured limit."""


class KeyTaken(HeadwayError):
    """Another job has the unique key. `job_id` is its id."""

    def __init__(self, message: str, job_id: UUID) -> None:
        super().__init__(f"{message}; wait for it, or enqueue with policy skip or replace")
        self.job_id = job_id


class UnknownTask(HeadwayError):
    """No task with this name is registered in this app."""


class JobNotFound(HeadwayError):
    """No job with this id, live or archived."""

    def __init__(self, job_id: UUID | str) -> None:
        super().__init__(
            f"no job {job_id}: it was never committed, was not kept, or retention removed it"
        )
        self.job_id = job_id


class ScheduleNotFound(HeadwayError):
    """No schedule with this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no schedule {name!r}; `headway schedule list` shows all schedules")
        self.name = name


class ResultTimeout(HeadwayError, TimeoutError):
    """The job did not finish within the timeout of `result()`. The job itself goes on."""


class JobFailed(HeadwayError):
    """The job ended without a result. `error` is the stored error."""

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
    """Raise it in a handler to fail the job now, even if attempts are left.

    >>> raise Fatal("no such customer")
    Traceback (most recent call last):
    headway.errors.Fatal: no such customer
    """


class Snooze(HeadwayError):
    """Raise it in a handler to run the job again after `delay`, without using an attempt.

    >>> raise Snooze("5m")
    Traceback (most recent call last):
    headway.errors.Snooze: 5m
    """

    def __init__(self, delay: str | float | timedelta) -> None:
        super().__init__(delay)
        self.delay = delay


class Interrupted(BaseException):
    """Raised inside the thread of a plain handler that did not stop within its `stop_grace`.

    Catch it to clean up, then raise it again. It is not an Exception, so `except Exception` does not
    swallow it.
    """
