"""The role that a statement needs, and advice for a login that lacks it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from psycopg import AsyncConnection, Connection

DENIED = "42501"  # insufficient_privilege

_PRODUCER = frozenset(
    {
        "moves/enqueue",
        "moves/withdraw",
        "writes/enqueue_alike",
        "writes/enqueue_by_name",
        "writes/enqueue_group",
        "writes/enqueue_group_in",
        "writes/enqueue_in",
        "writes/enqueue_one",
        "writes/enqueue_one_in",
        "writes/notify_lanes",
    }
)
_READER = frozenset({"writes/await"})
_OPERATOR = frozenset(
    {
        "moves/cancel",
        "moves/purge",
        "moves/revive",
        "moves/transfer",
        "writes/drain_worker",
        "writes/edit",
        "writes/mark_limited",
        "writes/pause",
        "writes/pause_schedule",
        "writes/reset_limit",
        "writes/resume",
        "writes/resume_schedule",
        "writes/retry",
        "writes/run_schedule",
        "writes/set_limit",
    }
)
_KINDS = ("producer", "reader", "operator", "worker")
"""Each may do what those before it may, with one exception: an operator cannot enqueue."""
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


def role_for(name: str) -> str:
    """Return the kind of the least role that may run a statement for user code."""
    if name in _PRODUCER:
        return "producer"
    if name in _READER or name.startswith("reads/"):
        return "reader"
    return "operator" if name in _OPERATOR else "worker"


def advice(schema: str, login: str | None, names: Iterable[str]) -> str:
    """Return advice for a login that was denied these statements, which run together."""
    kinds = sorted({role_for(name) for name in names}, key=_KINDS.index)
    who = "the login of this connection" if login is None else f"login {login}"
    made = "`headway migrate --roles` creates the roles"
    if not kinds:
        roles = ", ".join(f"{schema}_{kind}" for kind in _KINDS)
        return f"{who} needs one of the roles {roles}; {made}"
    role = f"{schema}_{kinds[-1]}"
    to = "that login" if login is None else _quoted(login)
    return f"{who} needs the role {role}: run GRANT {role} TO {to} ({made})"


def login_of(conn: Connection[Any] | AsyncConnection[Any] | None) -> str | None:
    """Return the login of a connection, or None if it is closed."""
    return None if conn is None or conn.closed else conn.info.user


def migrating(schema: str) -> str:
    """Return advice for a login that was denied a migration."""
    return (
        f"migrate as the owner of schema {schema}; the first migration needs CREATE on the database, "
        "and --roles needs CREATEROLE"
    )


def _quoted(login: str) -> str:
    return login if _PLAIN.fullmatch(login) else '"' + login.replace('"', '""') + '"'
