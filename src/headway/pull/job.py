"""`PulledJob`: a job that a consumer has claimed."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from headway._api.session import Session
from headway.core import codec
from headway.core.clock import monotonic
from headway.core.duration import Duration, optional_seconds, seconds
from headway.core.failure import storable
from headway.errors import ConfigError, DatabaseUnavailable, Fatal, Snooze
from headway.store import scripts
from headway.store.statement import Statement
from headway.store.statements import pulls
from headway.store.statements.pulls import PullRow

log = logging.getLogger("headway.pull")

_LONGEST_MESSAGE = 8000
_LEASES = (1.0, 86_400.0)
_PAUSE = 1.0


@dataclass(slots=True, eq=False)
class PulledJob:
    """A claimed job: settle it before its lease ends, or `extend` that.

    >>> async for job in hw.pull("ext"):            # doctest: +SKIP
    ...     async with job:                         # completes it, or fails it if this raises
    ...         await work(job.input)

    A method that settles the job returns true if it took effect. False means that the claim is lost and
    that nothing was changed. In `async with` (or `with`) an exception fails the attempt and is not raised
    further: `Snooze` postpones the job, `Fatal` fails it for good. If the block is cancelled or
    interrupted, the job is released.
    """

    id: UUID
    claim: int
    task: str
    step: str
    attempt: int
    max_attempts: int
    priority: int
    input: Any
    headers: dict[str, str] | None
    carried: Any
    """The state that a flow carries."""
    key: str | None
    lease: float
    """Seconds for which it was claimed."""
    settled: bool = field(default=False, init=False)
    """Whether one of the settling methods was called."""
    _session: Session = field(repr=False, kw_only=True)
    _fresh_until: float = field(repr=False, kw_only=True)

    @classmethod
    def of(cls, session: Session, row: PullRow, lease: float, asked_at: float) -> PulledJob:
        """Return the job of a claim that was sent at `asked_at`, by the monotonic clock."""
        return cls(
            row.id,
            row.claim,
            row.task,
            row.step,
            row.attempt,
            row.max_attempts,
            row.priority,
            codec.readable(row.input),
            None if row.headers is None else codec.readable(row.headers),
            None if row.carried is None else codec.readable(row.carried),
            row.key,
            lease,
            _session=session,
            _fresh_until=asked_at + lease / 2,
        )

    @property
    def half_spent(self) -> bool:
        """Whether half of its lease is over."""
        return monotonic() > self._fresh_until

    async def complete(self, result: Any = None) -> bool:
        """Complete the job with this result. Return false if the claim was lost."""
        return await self._settle(self._complete(result))

    async def fail(
        self, message: str | Exception, *, again: bool = True, delay: Duration | None = None
    ) -> bool:
        """Fail the attempt. Return false if the claim was lost.

        The job is retried while attempts are left, unless `again` is false. `delay` is the wait before
        the retry.
        """
        return await self._settle(self._fail(message, again, delay))

    async def release(self) -> bool:
        """Give the job back. It keeps its place, and the attempt does not count."""
        return await self._settle(pulls.release(self.id, self.claim))

    async def snooze(self, delay: Duration) -> bool:
        """Run the job again after `delay`. The attempt does not count."""
        return await self._settle(self._snooze(delay))

    async def extend(self, lease: Duration | None = None) -> bool:
        """Extend the lease of this job and of those claimed with it, from now on.

        Return false if you must stop: the claim is lost, or the job is being cancelled.
        """
        return await self._session.run(self._extend(lease))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        statement = self._after(error)
        if statement is not None and not await self._settle_surely(statement):
            self._lost()
        return isinstance(error, Exception)

    async def _settle_surely(self, statement: Statement[bool]) -> bool:
        """Settle as soon as the database can be reached, so that a loop over jobs does not end.

        If it is interrupted meanwhile, the job is left to its lease.
        """
        again = False
        while True:
            try:
                return await self._settle(statement, again)
            except DatabaseUnavailable as error:
                again = True
                log.warning("%s; job %s is settled once it can be reached again", error, self.id)
                await asyncio.sleep(_PAUSE)

    async def _settle(self, statement: Statement[bool], again: bool = False) -> bool:
        self.settled = True
        return await self._session.run(scripts.settle(statement, again))

    # -- sync: generated by scripts/sync from the async methods; do not edit --

    def complete_sync(self, result: Any = None) -> bool:
        """Sync version of `complete`.

        Complete the job with this result. Return false if the claim was lost.
        """
        return self._settle_sync(self._complete(result))

    def fail_sync(
        self, message: str | Exception, *, again: bool = True, delay: Duration | None = None
    ) -> bool:
        """Sync version of `fail`.

        Fail the attempt. Return false if the claim was lost.
        """
        return self._settle_sync(self._fail(message, again, delay))

    def release_sync(self) -> bool:
        """Sync version of `release`.

        Give the job back. It keeps its place, and the attempt does not count.
        """
        return self._settle_sync(pulls.release(self.id, self.claim))

    def snooze_sync(self, delay: Duration) -> bool:
        """Sync version of `snooze`.

        Run the job again after `delay`. The attempt does not count.
        """
        return self._settle_sync(self._snooze(delay))

    def extend_sync(self, lease: Duration | None = None) -> bool:
        """Sync version of `extend`.

        Extend the lease of this job and of those claimed with it, from now on.
        """
        return self._session.run_sync(self._extend(lease))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        statement = self._after(error)
        if statement is not None and not self._settle_surely_sync(statement):
            self._lost()
        return isinstance(error, Exception)

    def _settle_surely_sync(self, statement: Statement[bool]) -> bool:
        """Sync version of `_settle_surely`.

        Settle as soon as the database can be reached, so that a loop over jobs does not end.
        """
        again = False
        while True:
            try:
                return self._settle_sync(statement, again)
            except DatabaseUnavailable as error:
                again = True
                log.warning("%s; job %s is settled once it can be reached again", error, self.id)
                time.sleep(_PAUSE)

    def _settle_sync(self, statement: Statement[bool], again: bool = False) -> bool:
        self.settled = True
        return self._session.run_sync(scripts.settle(statement, again))

    # -- end of the generated methods --

    def _after(self, error: BaseException | None) -> Statement[bool] | None:
        """Return the statement that follows from the end of the block; None if the job is settled."""
        if isinstance(error, Exception) and not isinstance(error, Snooze):
            log.warning("job %s of %s failed", self.id, self.task, exc_info=error)
        if self.settled:
            return None
        match error:
            case None:
                return self._complete(None)
            case Snooze():
                return self._snooze(error.delay)
            case Exception():
                return self._fail(error, not isinstance(error, Fatal), None)
            case _:
                return pulls.release(self.id, self.claim)

    def _lost(self) -> None:
        log.warning(
            "job %s of %s was settled too late: its lease had ended; call extend while you work",
            self.id,
            self.task,
        )

    def _complete(self, result: Any) -> Statement[bool]:
        encoded = codec.check_size(
            codec.encode(result), self._session.max_payload_bytes, "the result"
        )
        return pulls.complete(self.id, self.claim, encoded)

    def _fail(
        self, message: str | Exception, again: bool, delay: Duration | None
    ) -> Statement[bool]:
        if isinstance(message, Exception):
            message = f"{type(message).__name__}: {message}"
        wait = optional_seconds(delay, name="delay")
        return pulls.fail(self.id, self.claim, storable(message, _LONGEST_MESSAGE), again, wait)

    def _snooze(self, delay: Duration) -> Statement[bool]:
        return pulls.snooze(self.id, self.claim, seconds(delay, name="delay"))

    def _extend(self, lease: Duration | None) -> Statement[bool]:
        length = self.lease if lease is None else check_lease(lease)
        self._fresh_until = monotonic() + length / 2
        return pulls.extend(self.id, self.claim, length)


def check_lease(lease: Duration) -> float:
    """Return a lease in seconds. Raise ConfigError unless it is between a second and a day."""
    shortest, longest = _LEASES
    if not shortest <= (length := seconds(lease, name="lease")) <= longest:
        raise ConfigError(
            f"lease {lease!r} is not between a second and a day; keep it short, and call extend "
            "while you work"
        )
    return length
