"""Failures: hearing of them as they happen, and trying again what they left behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from headway.core.duration import Duration, seconds
from headway.core.failure import Failure
from headway.core.moments import check_moment
from headway.errors import ConfigError, DatabaseError, DatabaseUnavailable
from headway.session import Session
from headway.store import inspect, jobs
from headway.store.rows import FailedRow, ServerRow
from headway.store.scripts import Script

log = logging.getLogger("headway.failures")

Since = datetime | Duration
"""A moment, or how long ago it was."""

T = TypeVar("T")

_TOLD = "failed"
_PAUSE = 1.0
_PORTION = 100
"""Jobs that are retried in one statement, and so come back together."""
_BAD_PATTERN = "2201B"  # invalid_regular_expression


async def failures(session: Session, since: Since | None) -> AsyncGenerator[Failure, None]:
    """Jobs that fail from now on, or from a moment on, each once.

    What is new is found by the snapshots of two readings (reads/failures.sql), so nothing is missed
    that committed late, or while the database could not be reached.
    """
    start: datetime | None = None
    after: str | None = None
    reachable, tries = True, 0
    while True:
        try:
            client = await session.ready_client()
            results = await session.results()
            if after is None:
                start = await client.play(moment(session, since))
            found = await client.run(inspect.failures(start, after))
        except DatabaseUnavailable as error:
            if reachable:
                log.warning("%s; failures are told of once it can be reached again", error)
            reachable = False
            await asyncio.sleep(_PAUSE)
            continue
        if not reachable:
            log.warning("the database can be reached again")
        reachable = True
        after, failed = found
        for failure in failed:
            yield failure
        tries = 0 if failed else tries + 1
        await results.wait(_TOLD, tries, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Which failed jobs to try again: those that all of this is true of."""

    task: str | None = None
    step: str | None = None
    error: str | None = None
    """A regular expression (PostgreSQL's, in any case) found in `type: message` of the error."""
    since: Since | None = None
    limit: int | None = None
    """The oldest so many."""

    def __post_init__(self) -> None:
        if self.task is self.step is self.error is self.since is None:
            raise ConfigError("say which failed jobs to retry: by task, step, error or since")
        check_since(self.since)
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit {self.limit} must be at least 1")


def find(session: Session, which: Which) -> Script[list[FailedRow]]:
    """The failed jobs that are meant, oldest first."""
    since = yield from moment(session, which.since)
    found: list[FailedRow] = yield inspect.matching(
        task=which.task, step=which.step, since=since, pattern=which.error, limit=which.limit
    )
    return found


def retry_failed(session: Session, which: Which) -> Script[int]:
    """Tries them again; how many. One that was retried by someone else meanwhile does not count."""
    found = yield from find(session, which)
    retried = 0
    for portion in portions([row.id for row in found]):
        retried += len((yield jobs.retry(portion)))
    return retried


def portions(ids: Sequence[T]) -> Iterator[Sequence[T]]:
    """As many at a time as are retried in one statement."""
    return (ids[start : start + _PORTION] for start in range(0, len(ids), _PORTION))


def moment(session: Session, since: Since | None) -> Script[datetime | None]:
    """The moment that is meant, by the database's clock."""
    if since is None or isinstance(since, datetime):
        return since
    server: ServerRow = yield inspect.server()
    return (session.clock.now() or server.now) - timedelta(seconds=seconds(since))


def check_since(since: Since | None) -> None:
    """Refuses what is no moment."""
    if isinstance(since, datetime):
        check_moment(since, "since")
    elif since is not None:
        seconds(since, name="since")


@contextmanager
def bad_pattern_explained(pattern: str | None) -> Generator[None, None, None]:
    """Says so where the server cannot read the pattern of an error."""
    try:
        yield
    except DatabaseError as error:
        if error.sqlstate != _BAD_PATTERN:
            raise
        raise ConfigError(
            f"error {pattern!r} is not a regular expression: {error}; write \\( for a parenthesis "
            "as it is, and so on"
        ) from None
