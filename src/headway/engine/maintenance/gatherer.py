"""Gathering: the follow-up of a group runs once the group has ended.

The end of a witness names its follow-up in a notification, and the leader looks at that group. As a net
it also reads the open groups in pages, in turn. The rows decide (moves/gather.sql).
"""

from __future__ import annotations

from uuid import UUID

from headway.engine.service import log
from headway.store.connections.engine_connection import EngineConnection
from headway.store.statements import groups
from headway.store.statements.jobs import Moment

_PAGE = 1000
_START = str(UUID(int=0))
_MOST_HINTS = 1000
"""The most groups that are remembered from notifications, which anybody can send."""


class Gatherer:
    """Finds groups that may have ended. The sweep `gather` runs it."""

    def __init__(self, connection: EngineConnection) -> None:
        self._connection = connection
        self._hinted = set[str]()
        self._after = _START
        """The cursor on open groups."""

    def hint(self, job_id: str) -> None:
        """The group of this follow-up may have ended."""
        if len(self._hinted) < _MOST_HINTS:
            self._hinted.add(job_id)

    async def run(self, now: Moment) -> bool:
        """Look at the groups that were named, and at a page of all. Return whether there are more."""
        hinted, self._hinted = self._hinted, set[str]()
        try:
            page = await self._connection.run(groups.gatherable(self._after, _PAGE))
            if found := sorted({*hinted, *page.ids}):
                target = self._connection.target
                if made := await self._connection.run(groups.gather(target, found, now)):
                    log.debug("made %d follow-ups ready", made)
        except BaseException:
            self._hinted |= hinted
            raise
        self._after = page.last or _START
        return page.last is not None
