"""Time travel: an app whose clock stands still until the test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from headway import Headway
from headway.core.clock import Clock
from headway.core.duration import seconds

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
"""Where every journey begins; a Tuesday."""


def at(text: str) -> datetime:
    """A time of the first day, or a whole moment; in UTC."""
    return datetime.fromisoformat(text if "T" in text else f"2030-01-01T{text}").replace(tzinfo=UTC)


class Travel:
    """Moves apps of one schema through time together, and looks at what their schedules made."""

    def __init__(self, hw: Headway, db: psycopg.Connection[Any]) -> None:
        self.hw = hw
        self.clock = Clock(NOON)
        self._db = db
        self.bring(hw)

    def bring(self, hw: Headway) -> Headway:
        """Another app, to the same moment."""
        hw._session.clock = self.clock
        return hw

    def to(self, moment: datetime | str) -> None:
        self.clock.fixed = at(moment) if isinstance(moment, str) else moment

    def on(self, by: str) -> None:
        self.clock.advance(timedelta(seconds=seconds(by)))

    async def run(self, moment: datetime | str | None = None, hw: Headway | None = None) -> None:
        """Runs what is due, at a moment to travel to before; with a worker that starts for it."""
        if moment is not None:
            self.to(moment)
        await (hw or self.hw).run_until_idle()

    def made(self, schedule: str | None = None) -> list[str]:
        """The occurrences that jobs were made of, with the time of day only on the first day."""
        query = """select headers ->> 'occurrence' from jobs
                   where headers ? 'occurrence' and coalesce(headers ->> 'schedule' = %s, true)
                   order by (headers ->> 'occurrence')::timestamptz, id"""
        found = [row[0] for row in self._db.execute(query, (schedule,)).fetchall()]
        return [one.removeprefix("2030-01-01T").removesuffix(":00Z") for one in found]

    def names(self) -> list[str]:
        """Of the schedules that there are."""
        query = "select name from schedules order by name"
        return [row[0] for row in self._db.execute(query).fetchall()]

    def states(self) -> list[str]:
        """Of the jobs that there are, in the order in which they were made."""
        return [row[0] for row in self._db.execute("select state from jobs order by id").fetchall()]
