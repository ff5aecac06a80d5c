"""Runs one statement on a connection of its own, for threads that must not share a connection."""

from __future__ import annotations

import threading
from typing import TypeVar

from headway.store.connections.connect import CLIENT_TRANSACTION, Target, connect_sync, cut
from headway.store.faults import DRIVER_ERRORS, translate
from headway.store.statement import Statement, text

R = TypeVar("R")


def run_once(target: Target, statement: Statement[R], within: float) -> R:
    """Return the statement's answer. Block while connecting, and then for at most `within` seconds.

    Raise DatabaseUnavailable, or another error of `store/faults.py`, if there is no answer.
    """
    try:
        with connect_sync(target) as conn:
            late = threading.Timer(within, cut, [conn])
            late.start()
            try:
                conn.execute(CLIENT_TRANSACTION)
                cursor = conn.execute(text(statement.name, target.schema), statement.params)
                answer = statement.read(cursor.fetchall())
                conn.commit()
                return answer
            finally:
                late.cancel()
    except DRIVER_ERRORS as error:
        raise translate(error) from error
