"""The identity of the database behind a connection, so that jobs are not made where no worker finds them.

A database is identified by its name and the start time of its server, which every role may read. A
running copy of a server (a restored backup, a promoted standby) has another identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.errors import ConfigError
from headway.store.statement import Row, Statement


@dataclass(frozen=True, slots=True)
class Identity:
    """A database of a running server."""

    database: str
    server: str
    """The start time of the server."""
    address: str
    """For messages only: two connections may have different addresses of one server."""

    def same(self, other: Identity) -> bool:
        """Return whether both are the same database."""
        return (self.database, self.server) == (other.database, other.server)

    def __str__(self) -> str:
        return f"database {self.database!r} on {self.address}"


NOWHERE = Identity("", "", "")


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Replaces an answer: the connection leads to another database, and nothing was made there."""

    found: Identity


def read(expected: Identity | None = None) -> Statement[Identity | Elsewhere]:
    """Return the identity of a connection's database, or `Elsewhere` if it is not the expected one."""

    def found(rows: Sequence[Row]) -> Identity | Elsewhere:
        place = Identity(*rows[0])
        return place if expected is None or expected.same(place) else Elsewhere(place)

    return Statement("reads/place", {}, found)


def refusal(own: Identity, found: Identity) -> ConfigError:
    """Return the error for a caller's connection that leads to another database."""
    started = "" if own.database != found.database else " (another server)"
    return ConfigError(
        f"conn leads to {found}{started}, but the app's database is {own}, so no worker of the app would "
        "find the job; pass a connection to the app's database, or change the app's DSN"
    )


def elsewhere(answers: Sequence[object]) -> Identity | None:
    """Return the database that was found, if it is not the expected one."""
    return next((each.found for each in answers if isinstance(each, Elsewhere)), None)


def answer(place: Identity, rows: Sequence[Row]) -> dict[str, str] | Elsewhere:
    """Return {requested id: id of the job that holds its unique key}, or `Elsewhere`."""
    found = Identity(*rows[0][:3])
    if not place.same(found):
        return Elsewhere(found)
    return {row[3]: row[4] for row in rows if row[3] is not None}
