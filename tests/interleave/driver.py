"""Sessions that take turns, statement by statement, in every order that there is.

A session does its steps one at a time, in a thread. After each step the driver waits until every session
has either done its step or waits for the end of another's transaction, which the server says itself
(`pg_locks`). So an order of turns is a list of choices, runs the same again, and all of them can be
tried: at each turn the choice is between the sessions that do not wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import psycopg

from headway.store.statement import Statement
from tests.store.store import Store, engine_connection
from tests.support import DEADLINE

Step = Callable[["Session"], Any]
# Locks that last as long as a transaction: who waits for one goes on when somebody else has had a turn.
_WAITING = """select pid from pg_locks
              where not granted and locktype in ('transactionid', 'tuple', 'advisory')"""


class Session:
    """A connection with things to do, in their order. An error ends nothing: it is an answer."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.conn = engine_connection(store.dsn)
        self.conn.execute("set lock_timeout = 0; set statement_timeout = 0")
        self.answers: list[Any] = []
        self._thread = ThreadPoolExecutor(1)
        self._todo: list[Step] = []
        self._doing: Future[Any] | None = None

    def prepare(self, steps: Iterable[Step]) -> None:
        self.conn.rollback()
        self.answers, self._todo = [], list(steps)

    @property
    def doing(self) -> bool:
        """Whether a step is under way."""
        if self._doing is None or not self._doing.done():
            return self._doing is not None
        error = self._doing.exception()
        if error is not None and not isinstance(error, psycopg.Error):
            raise error
        self.answers.append(error or self._doing.result())
        self._doing = None
        return False

    @property
    def left(self) -> bool:
        """Whether it has more to do."""
        return bool(self._todo)

    def go(self) -> None:
        """Begins the next step."""
        self._doing = self._thread.submit(self._todo.pop(0), self)

    def done_within(self, seconds: float) -> bool:
        return self._doing is None or bool(wait([self._doing], seconds).done)

    def run(self, statement: Statement[Any]) -> Any:
        return self.store.run(statement, self.conn)

    def close(self) -> None:
        self._thread.shutdown()
        self.conn.close()


def begin(session: Session) -> None:
    session.conn.execute("begin")


def commit(session: Session) -> None:
    session.conn.execute("commit")


def rollback(session: Session) -> None:
    session.conn.execute("rollback")


def does(*parts: Callable[[Session], Any]) -> Step:
    """One step made of several; its answer is that of the last."""

    def step(session: Session) -> Any:
        return [part(session) for part in parts][-1]

    return step


def says(statement: Callable[[], Statement[Any]]) -> Step:
    """A step that runs a statement, made when it is its turn."""
    return lambda session: session.run(statement())


class Every:
    """Tries every order of turns."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sessions: list[Session] = []

    def order(
        self,
        setup: Callable[[], Sequence[Sequence[Step]]],
        after: Callable[[list[list[Any]]], None],
        always: Callable[[], None] = lambda: None,
    ) -> int:
        """How many orders there were. `setup` makes the world and says what each session is to do;
        `always` holds after each step, `after` is given what each step answered."""
        path: list[int] = []
        for count in range(1, 100_000):
            taken = self._run(path, setup(), after, always)
            while taken and taken[-1][0] + 1 == taken[-1][1]:
                taken.pop()
            if not taken:
                return count
            path = [choice for choice, _ in taken]
            path[-1] += 1
        raise AssertionError("there are too many orders to try")

    def close(self) -> None:
        for session in self._sessions:
            session.close()

    def _run(
        self,
        path: list[int],
        todo: Sequence[Sequence[Step]],
        after: Callable[[list[list[Any]]], None],
        always: Callable[[], None],
    ) -> list[tuple[int, int]]:
        """One order: the choices made, each with how many there were."""
        while len(self._sessions) < len(todo):
            self._sessions.append(Session(self._store))
        sessions = self._sessions[: len(todo)]
        for session, steps in zip(sessions, todo, strict=True):
            session.prepare(steps)
        taken: list[tuple[int, int]] = []
        while ready := [session for session in sessions if session.left and not session.doing]:
            choice = path[len(taken)] if len(taken) < len(path) else 0
            taken.append((choice, len(ready)))
            ready[choice].go()
            self._rest(sessions)
            always()
        assert not any(session.doing for session in sessions), "all of them wait for each other"
        after([session.answers for session in sessions])
        return taken

    def _rest(self, sessions: list[Session]) -> None:
        """Returns when nobody goes on by himself."""
        deadline = time.monotonic() + DEADLINE
        while doing := [session for session in sessions if session.doing]:
            if doing[0].done_within(0.001):
                continue
            waiting = {row["pid"] for row in self._store.rows(_WAITING)}
            if all(session.conn.info.backend_pid in waiting for session in doing):
                return
            assert time.monotonic() < deadline, "a step neither ends nor waits for another"
