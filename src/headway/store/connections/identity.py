"""Which database a connection leads to, so that no job is made where no worker of the app looks.

A place is a database of a server; the server is known by the moment it started, which every role may
read. A copy of a server that runs (a restored backup, a standby that was promoted) is another place.
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
    """When it started."""
    address: str
    """For people: two connections may name one server differently."""

    def same(self, other: Identity) -> bool:
        """Return whether both are one database."""
        return (self.database, self.server) == (other.database, other.server)

    def __str__(self) -> str:
        return f"database {self.database!r} on {self.address}"


NOWHERE = Identity("", "", "")


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """In place of an answer: the connection leads to another place, and nothing was made there."""

    found: Identity


def read(expected: Identity | None = None) -> Statement[Identity | Elsewhere]:
    """Return where a connection leads; `Elsewhere` if that is not the place expected."""

    def found(rows: Sequence[Row]) -> Identity | Elsewhere:
        place = Identity(*rows[0])
        return place if expected is None or expected.same(place) else Elsewhere(place)

    return Statement("reads/place", {}, found)


def refusal(own: Identity, found: Identity) -> ConfigError:
    """Return the error for a connection of the caller's that leads elsewhere."""
    started = "" if own.database != found.database else " (another server)"
    return ConfigError(
        f"conn leads to {found}{started}, but the app's database is {own}: no worker of the app would "
        "find the job; give a connection to the app's database, or set the app's DSN to that one"
    )


def elsewhere(answers: Sequence[object]) -> Identity | None:
    """Return where the connection led, if that was another place than expected."""
    return next((each.found for each in answers if isinstance(each, Elsewhere)), None)


def answer(place: Identity, rows: Sequence[Row]) -> dict[str, str] | Elsewhere:
    """Return the holders of unique keys by the ids that were asked for."""
    found = Identity(*rows[0][:3])
    if not place.same(found):
        return Elsewhere(found)
    return {row[3]: row[4] for row in rows if row[3] is not None}
