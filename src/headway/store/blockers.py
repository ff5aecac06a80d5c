"""Sessions whose open transactions hold up others: how they are found, and how they are named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg import errors as pg

from headway.core.duration import in_words
from headway.errors import DatabaseUnavailable
from headway.store.limit import NoAnswer
from headway.store.statement import Row, Statement

ANSWER_WITHIN = 2.0
"""Seconds for the answer: whoever asks has waited long enough already."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """A session with an open transaction."""

    pid: int | None
    """None for a prepared transaction."""
    application: str
    state: str
    seconds: float | None
    """How long it has been in that state; none if that may not be seen."""
    query: str
    """What it runs, or ran last."""
    whole: bool
    """It has locked a whole table, and not only rows."""

    def words(self, *, query: bool = True) -> str:
        """Name it, for people."""
        if self.pid is None:
            return "a prepared transaction, see pg_prepared_xacts"
        state = self.state or "in a state that this role may not see"
        if self.seconds is not None:
            state += f" for {in_words(max(self.seconds, 0))}"
        said = " ".join(self.query.split())
        parts = [f"pid {self.pid}", self.application, state, f"`{said}`" if query and said else ""]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Wait:
    """A session of a worker that waits for another session."""

    pid: int
    name: str
    seconds: float
    blocker: Blocker

    def words(self) -> str:
        """Say who waits for whom, for people."""
        waited = in_words(max(self.seconds, 0))
        return f"{self.name} (pid {self.pid}) has waited {waited} for {self.blocker.words()}"


def waits(now: datetime | None) -> Statement[list[Wait]]:
    """Return which sessions of workers and handlers wait for a lock, and for whom."""
    return Statement(
        "reads/waits",
        {"now": now},
        lambda rows: [_wait(row) for row in rows],
    )


def _wait(row: Row) -> Wait:
    pid, name, waited, blocker, application, state, seconds, query = row
    return Wait(pid, name, waited, Blocker(blocker, application, state, seconds, query, False))


def read(since: float) -> Statement[list[Blocker]]:
    """Return who has locked a table of the schema, or has written rows `since` so many seconds."""
    params = {"since": since, "now": None}
    return Statement("reads/blockers", params, lambda rows: [Blocker(*row) for row in rows])


def may_be_held_up(error: BaseException) -> bool:
    """Return whether a statement may have waited for a lock until it was given up."""
    return isinstance(error, pg.LockNotAvailable | pg.QueryCanceled | NoAnswer)


def explain(words: str, held: Sequence[Blocker]) -> DatabaseUnavailable:
    """Return the error for a statement that was held up by these."""
    named = "; ".join(blocker.words() for blocker in held)
    return DatabaseUnavailable(
        f"{words}; an open transaction holds what it needs ({named}); commit it or roll it back"
    )


def key_held(what: str, held: Sequence[Blocker]) -> DatabaseUnavailable:
    """Return the error for an enqueue whose unique key an open transaction has."""
    named = "; or ".join(blocker.words(query=False) for blocker in held)
    return DatabaseUnavailable(
        f"{what} is held by a transaction that is still open ({named}); commit or roll it back"
    )
