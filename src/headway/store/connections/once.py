"""One statement on a connection that exists only for it; for threads that must not share any."""

from __future__ import annotations

import threading
from typing import TypeVar

from headway.store.connect import CLIENT_TRANSACTION, Target, connect_sync, cut
from headway.store.faults import DRIVER_ERRORS, translate
from headway.store.statement import Statement, text

R = TypeVar("R")


def run_once(target: Target, statement: Statement[R], within: float) -> R:
    """Return the statement's answer. Blocks while it connects, and for `within` seconds after that.

    Raise DatabaseUnavailable or another of the errors of `store/faults.py` if there is none.
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
