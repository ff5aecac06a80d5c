"""Text that cannot be read in UTF-8 is refused on every path: it would stop all workers (S7, G8)."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import pq

from headway import Headway
from tests.store.conftest import Make

_CODES = {"SQL_ASCII": ("LATIN1", b"\xfc"), "WIN1252": ("WIN1252", b"\x81")}
"""By the encoding of a database: that of a client whose text it does not convert, and such a text."""

_PATHS = {
    "enqueue, input": """select headway.enqueue('t', '{"x": "?"}')""",
    "enqueue, name": "select headway.enqueue('?')",
    "enqueue, key": "select headway.enqueue('t', unique_key => '?')",
    "enqueue_many": """select headway.enqueue_many('[{"task": "t", "headers": {"x": "?"}}]')""",
    "enqueue_jobs": """select headway.enqueue_jobs('[{"id": "ID", "task": "t", "queue": "q",
        "max_attempts": 1, "input": {}, "carried": "?"}]', null, null)""",
    "inbox": """insert into headway.inbox (task, input) values ('t', '{"?": 1}')""",
    "new_jobs": """insert into headway.new_jobs (id, max_attempts, priority, queue, task, step, input)
        values ('ID', 1, 0, 'q', 't', '', '{"x": "?"}')""",
    "edit": """select headway.edit('WAITING', '{"x": "?"}')""",
    "operator_edit": """select headway.operator_edit('WAITING', null, '{"x": "?"}')""",
    "pause, name": "select headway.pause('?')",
    "pause, key": "select headway.pause(key => '?')",
    "pause, reason": "select headway.pause('q', reason => '?')",
    "set_limit": "select headway.set_limit('q', 1, actor => '?')",
    "pause_schedule": "select headway.pause_schedule('tick', '?')",
    "claim": "select headway.claim('q', tasks => '{?}')",
    "complete": """select headway.complete('CLAIMED', CLAIM, '"?"')""",
    "fail": "select headway.fail('CLAIMED', CLAIM, '?', again => false)",
    "retry": "select headway.fail('CLAIMED', CLAIM, '?')",
    "advance": """select headway.advance('CLAIMED', CLAIM, 's', carried => '"?"')""",
}


@pytest.mark.parametrize("encoding", _CODES)
def test_s7_text_that_cannot_be_read_in_utf8_is_refused(database: Make, encoding: str) -> None:
    dsn = database(f"encoding '{encoding}' locale 'C'")
    client, bad = _CODES[encoding]
    with Headway(dsn) as hw:
        hw.task(name="t")(lambda: None)
        hw.schedules.put_sync("tick", "t", "@every 1h")
        with psycopg.connect(dsn, autocommit=True, client_encoding=client) as conn:
            waiting = _value(conn, "select headway.enqueue('t')")
            claimed = _value(conn, "select headway.enqueue('t', queue => 'c')")
            claim = _value(conn, "select claim from headway.claim('c')")
            named = {"WAITING": waiting, "CLAIMED": claimed, "CLAIM": claim, "ID": uuid4()}
            taken = [
                path for path, query in _PATHS.items() if not _refused(conn, query, named, bad)
            ]
            assert taken == []
            assert _value(conn, f"select headway.complete('{claimed}', {claim})") is True
        assert hw.run_until_idle_sync().total == 1
        assert len(hw.jobs.list_sync()) == 2


def _refused(conn: psycopg.Connection[Any], query: str, named: dict[str, Any], bad: bytes) -> bool:
    """The driver would refuse the text itself, so it is sent as bytes."""
    for name, value in named.items():
        query = query.replace(name, str(value))
    result = conn.pgconn.exec_(query.encode().replace(b"?", bad))
    if result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        return False
    state = result.error_field(pq.DiagnosticField.SQLSTATE) or b""
    assert state.startswith(b"22"), (query, result.error_message)
    return True


def _value(conn: psycopg.Connection[Any], query: str) -> Any:
    row = conn.execute(query).fetchone()  # type: ignore[arg-type]
    assert row is not None
    return row[0]
