"""The time that a call of the client may take, and the pauses between its tries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from psycopg.errors import LockNotAvailable

from headway.core.clock import monotonic
from headway.store import blockers, rights
from headway.store.blockers import Blocker, key_held, may_be_held_up
from headway.store.faults import is_passing, translate, words
from headway.store.statement import Statement

GIVE_UP_AFTER = 30.0
"""Seconds after which a call fails with `DatabaseUnavailable`. That is longer than most failovers."""

ANSWER_WITHIN = 15.0
"""Seconds for the answer of one statement."""
_SCAN_WITHIN = 120.0
"""Seconds for the answer of a statement that may read a whole queue or the archive."""
_SCANS = frozenset(
    {
        "moves/purge",
        "moves/transfer",
        "reads/count_jobs",
        "reads/errors",
        "reads/failures",
        "reads/jobs",
        "reads/matching",
        "reads/metrics",
        "reads/waiting_counts",
        "reads/queues",
        "reads/stranded",
        "writes/retry",
    }
)
_PAUSES = (0.05, 0.2, 0.5, 1.0)
"""Seconds between tries. The last one repeats."""
_NEARLY = 0.9
"""Fraction of the time that a statement waited. Its blocker has held the lock for at least that long."""
_AT_LEAST = 1.0
"""Seconds that a statement gets even after the caller's deadline."""


OnRepeat = Sequence[Statement[Any]] | Callable[[], Sequence[Statement[Any]]]
"""Statements that a repetition adds, or a function that makes them if it comes to that."""


class CallAnswers(list[Any]):
    """The answers of one call."""

    repeated = False
    """Whether the statements were sent more than once, so an earlier try may have taken effect."""


class CallBudget:
    """One call: how often it was sent, and how much time is left for it."""

    __slots__ = (
        "_answer_within",
        "_bound",
        "_sent_at",
        "_tries",
        "repeated",
        "sent",
        "statements",
        "until",
    )

    def __init__(
        self,
        statements: Sequence[Statement[Any]],
        timeout: float | None,
        answer_within: float,
        until: float | None,
        began: float | None = None,
    ) -> None:
        """`until` is the caller's deadline. `began` is when the call began, if not now."""
        self._answer_within = answer_within
        self.statements = statements
        self._tries = 0
        self._sent_at = monotonic() if began is None else began
        self.sent = self.repeated = False
        self._bound = until
        mine = self._sent_at + (GIVE_UP_AFTER if timeout is None else timeout)
        self.until = mine if until is None else min(mine, until)
        """The deadline for reaching the server. A scan that was already sent may take longer."""

    def seconds(self, statement: Statement[Any] | None) -> float:
        """Return the seconds for the answer of a statement."""
        scans = statement is not None and statement.name in _SCANS
        within, until = (_SCAN_WITHIN, self._bound) if scans else (self._answer_within, self.until)
        return within if until is None else min(within, max(until - monotonic(), _AT_LEAST))

    def sending(self, on_repeat: OnRepeat) -> Sequence[Statement[Any]]:
        """Return the statements of this try."""
        self.repeated, self.sent = self.sent, True
        self._sent_at = monotonic()
        if not self.repeated:
            return self.statements
        return [*self.statements, *(on_repeat() if callable(on_repeat) else on_repeat)]

    def answers(self, answers: list[Any]) -> CallAnswers:
        """Return the answers to the caller's own statements."""
        found = CallAnswers(answers[: len(self.statements)])
        found.repeated = self.repeated
        return found

    @property
    def waits_for(self) -> str | None:
        """A description of a lock that the statements may have to wait for."""
        return next((each.waits_for for each in self.statements if each.waits_for), None)

    def blockers(self, error: Exception) -> Statement[list[Blocker]] | None:
        """Return the statement that finds the blockers, if the call may have been blocked.

        Return None if the call will be repeated anyway.
        """
        last = self.until <= monotonic()
        if not may_be_held_up(error) or not (last or isinstance(error, LockNotAvailable)):
            return None
        return blockers.read((monotonic() - self._sent_at) * _NEARLY)

    def after(
        self, error: Exception, schema: str, login: str | None, held: Sequence[Blocker] = ()
    ) -> float:
        """Return the pause before the next try. Raise the error if it lasts, or if the time is up.

        `held` are the sessions that blocked it. A call waits only once for a unique key that an open
        transaction holds. `login` is named in the error if it lacks rights.
        """
        left = self.until - monotonic()
        if held and isinstance(error, LockNotAvailable) and self.waits_for and not held[0].whole:
            raise key_held(self.waits_for, held) from error
        if not is_passing(error) or left <= 0:
            if held:
                raise blockers.explain(words(error), held) from error
            names = [statement.name for statement in self.statements]
            raise translate(error, rights.advice(schema, login, names)) from error
        pause = _PAUSES[min(self._tries, len(_PAUSES) - 1)]
        self._tries += 1
        return min(pause, left)
