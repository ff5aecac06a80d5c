"""Sessions whose open transactions block others: finding them, and naming them in messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg import errors as pg

from headway.core.duration import in_words
from headway.errors import DatabaseUnavailable
from headway.store.connections.answer_limit import NoAnswer
from headway.store.statement import Row, Statement

ANSWER_WITHIN = 2.0
"""Seconds for the answer. It is short because the caller has already waited for a lock."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """A session with an open transaction."""

    pid: int | None
    """None for a prepared transaction."""
    application: str
    state: str
    seconds: float | None
    """How long it has been in that state, or None if this role may not see that."""
    query: str
    """The statement that it runs, or ran last."""
    whole: bool
    """It has locked a whole table, not only rows."""

    def words(self, *, query: bool = True) -> str:
        """Return a description for people."""
        if self.pid is None:
            return "a prepared transaction, see pg_prepared_xacts"
        state = self.state or "in a state that this role may not see"
        if self.seconds is not None:
            state += f" for {in_words(max(self.seconds, 0))}"
        sql = " ".join(self.query.split())
        parts = [f"pid {self.pid}", self.application, state, f"`{sql}`" if query and sql else ""]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Wait:
    """A session of a worker that waits for another session."""

    pid: int
    name: str
    seconds: float
    blocker: Blocker

    def words(self) -> str:
        """Return a description for people: which session waits for which."""
        waited = in_words(max(self.seconds, 0))
        return f"{self.name} (pid {self.pid}) has waited {waited} for {self.blocker.words()}"


def waits(now: datetime | None) -> Statement[list[Wait]]:
    """Return the sessions of workers and handlers that wait for a lock, each with its blocker."""
    return Statement(
        "reads/waits",
        {"now": now},
        lambda rows: [_wait(row) for row in rows],
    )


def _wait(row: Row) -> Wait:
    pid, name, waited, blocker, application, state, seconds, query = row
    return Wait(pid, name, waited, Blocker(blocker, application, state, seconds, query, False))


def read(since: float) -> Statement[list[Blocker]]:
    """Return the sessions that locked a table of the schema, or have held rows for `since` seconds."""
    params = {"since": since, "now": None}
    return Statement("reads/blockers", params, lambda rows: [Blocker(*row) for row in rows])


def may_be_held_up(error: BaseException) -> bool:
    """Return whether a statement may have failed because it waited too long for a lock."""
    return isinstance(error, pg.LockNotAvailable | pg.QueryCanceled | NoAnswer)


def explain(words: str, held: Sequence[Blocker]) -> DatabaseUnavailable:
    """Return the error for a statement that these sessions blocked."""
    named = "; ".join(blocker.words() for blocker in held)
    return DatabaseUnavailable(
        f"{words}; an open transaction holds a lock that it needs ({named}); commit it or roll it back"
    )


def key_held(what: str, held: Sequence[Blocker]) -> DatabaseUnavailable:
    """Return the error for an enqueue whose unique key an open transaction holds."""
    named = "; or ".join(blocker.words(query=False) for blocker in held)
    return DatabaseUnavailable(
        f"{what} is held by a transaction that is still open ({named}); commit or roll it back"
    )
