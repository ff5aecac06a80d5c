"""A second session that stands before a lock, for tests of two who meet."""

from __future__ import annotations

import threading
from typing import Any

import psycopg

from headway.store.statement import Statement
from tests.store.store import Store, engine_connection
from tests.support import DEADLINE, eventually_sync


class Aside:
    """A statement run by another session, in a thread, while the test holds something it needs."""

    def __init__(self, store: Store, statement: Statement[Any]) -> None:
        self._store = store
        self._conn = engine_connection(store.dsn)
        self._answers: list[Any] = []
        self._thread = threading.Thread(target=self._run, args=[statement])
        self._thread.start()

    def _run(self, statement: Statement[Any]) -> None:
        with self._conn:
            try:
                self._answers.append(self._store.run(statement, self._conn))
            except psycopg.Error as error:
                self._answers.append(error)

    def wait_until_it_waits(self) -> Aside:
        """Returns when the other session stands before a lock."""
        query = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and pid = %s"
        pid = self._conn.info.backend_pid
        eventually_sync(lambda: self._store.rows(query, pid))
        return self

    def answer(self) -> Any:
        self._thread.join(DEADLINE)
        (answer,) = self._answers
        return answer
