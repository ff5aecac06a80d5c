"""Orphans: jobs that the worker holds without knowing it.

Usually a claim took them although its answer never arrived. But a stopped server process may run a claim
minutes later, and a failover may forget the end of a job.
"""

from __future__ import annotations

from collections.abc import Iterable

from headway.core.clock import monotonic
from headway.engine.service import log
from headway.store.connections.engine_connection import EngineConnection
from headway.store.rows import Claim
from headway.store.statements import jobs

_APPEAR_WITHIN = 40.0
"""Seconds after which the server has ended a claim without an answer, too: more than the server's
statement timeout."""
_EVERY = 5.0
_REGULARLY = 60.0
"""Seconds between searches while nothing has gone wrong."""
_SHARE = 20
"""A search walks dead index entries. The next one waits for this many times as long as it took."""
_AT_ONCE = 100


class Orphans:
    """Searches for orphans now and then, and often after a claim without an answer.

    The server may still run the claim when the connection is long gone. So the search goes on until
    one that began after the statement timeout has found nothing, however long the outage lasts.
    """

    def __init__(self, connection: EngineConnection) -> None:
        self._connection = connection
        self._unanswered_at: float | None = None
        """When the last claim without an answer failed."""
        self._search_at = monotonic() + _REGULARLY

    @property
    def are_possible(self) -> bool:
        """Whether a claim without an answer may have left some."""
        return self._unanswered_at is not None

    def claim_failed(self) -> None:
        """A claim got no answer. It may have taken jobs all the same."""
        self._unanswered_at = monotonic()
        self._search_at = 0.0

    def due_in(self) -> float:
        """Return the seconds until the next search."""
        return max(0.0, self._search_at - monotonic())

    async def find(self, worker_id: int, known: Iterable[Claim]) -> list[Claim]:
        """Return claims that the worker holds without knowing it: all but the `known` ones."""
        now, unanswered_at = monotonic(), self._unanswered_at
        orphans = await self._connection.run(jobs.orphans(worker_id, known, _AT_ONCE))
        if orphans:
            log.info("adopted %d jobs that this worker held without knowing it", len(orphans))
        elif unanswered_at is not None and now >= unanswered_at + _APPEAR_WITHIN:
            self._unanswered_at = None
        rest = _REGULARLY if self._unanswered_at is None else _EVERY
        took = monotonic() - now
        self._search_at = now if len(orphans) == _AT_ONCE else now + max(rest, _SHARE * took)
        return orphans
