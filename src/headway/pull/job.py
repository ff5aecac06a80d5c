"""`PulledJob`: a job in the hands of a consumer that is no worker."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from headway.core import codec
from headway.core.clock import monotonic
from headway.core.duration import Duration, optional_seconds, seconds
from headway.core.failure import storable
from headway.errors import ConfigError, DatabaseUnavailable, Fatal, Snooze
from headway.session import Session
from headway.store import pulls, scripts
from headway.store.pulls import PullRow
from headway.store.statement import Statement

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

    Each settling is true if it took effect; false means that the claim is not ours any more, and that
    nothing was changed. In `async with` (or `with`), an exception fails the attempt and goes no
    further: `Snooze` puts the job off, `Fatal` fails it for good. Cancelled or interrupted, it is given
    back as it was.
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
    """The state of a flow that carries one."""
    key: str | None
    lease: float
    """Seconds that it was claimed for."""
    settled: bool = field(default=False, init=False)
    """Whether anything was said of what is to become of it."""
    _session: Session = field(repr=False, kw_only=True)
    _fresh_until: float = field(repr=False, kw_only=True)

    @classmethod
    def of(cls, session: Session, row: PullRow, lease: float, asked_at: float) -> PulledJob:
        """What was claimed by a call made at `asked_at`, by the monotonic clock."""
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
    def lingered(self) -> bool:
        """Half of its lease is gone."""
        return monotonic() > self._fresh_until

    # -- settling ---------------------------------------------------------------------------------

    async def complete(self, result: Any = None) -> bool:
        """It succeeded, with this result."""
        return await self._run(self._complete(result))

    def complete_sync(self, result: Any = None) -> bool:
        """As `complete`."""
        return self._run_sync(self._complete(result))

    async def fail(
        self, message: str | Exception, *, again: bool = True, delay: Duration | None = None
    ) -> bool:
        """The attempt failed: it runs again while attempts are left, unless `again` is false."""
        return await self._run(self._fail(message, again, delay))

    def fail_sync(
        self, message: str | Exception, *, again: bool = True, delay: Duration | None = None
    ) -> bool:
        """As `fail`."""
        return self._run_sync(self._fail(message, again, delay))

    async def release(self) -> bool:
        """Gives it back at once: it keeps its place, and the attempt does not count."""
        return await self._run(pulls.release(self.id, self.claim))

    def release_sync(self) -> bool:
        """As `release`."""
        return self._run_sync(pulls.release(self.id, self.claim))

    async def snooze(self, delay: Duration) -> bool:
        """It runs again after `delay`, and the attempt does not count."""
        return await self._run(self._snooze(delay))

    def snooze_sync(self, delay: Duration) -> bool:
        """As `snooze`."""
        return self._run_sync(self._snooze(delay))

    async def extend(self, lease: Duration | None = None) -> bool:
        """Lengthens the lease, from now on, of this job and of those claimed with it. False means
        stop: the claim is lost, or someone cancels the job."""
        return await (await self._session.ready_client()).run(self._extend(lease))

    def extend_sync(self, lease: Duration | None = None) -> bool:
        """As `extend`."""
        return self._session.client.run_sync(self._extend(lease))

    # -- as a context -----------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        if (statement := self._after(error)) is not None and not await self._settle(statement):
            self._lost()
        return isinstance(error, Exception)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        if (statement := self._after(error)) is not None and not self._settle_sync(statement):
            self._lost()
        return isinstance(error, Exception)

    async def _settle(self, statement: Statement[bool]) -> bool:
        """As soon as the database can be reached: a loop over jobs does not end because it is away. One
        that is interrupted meanwhile leaves the job to its lease."""
        again = False
        while True:
            try:
                return await self._run(statement, again)
            except DatabaseUnavailable as error:
                again = True
                log.warning("%s; job %s is settled once it can be reached again", error, self.id)
                await asyncio.sleep(_PAUSE)

    def _settle_sync(self, statement: Statement[bool]) -> bool:
        """As `_settle`."""
        again = False
        while True:
            try:
                return self._run_sync(statement, again)
            except DatabaseUnavailable as error:
                again = True
                log.warning("%s; job %s is settled once it can be reached again", error, self.id)
                time.sleep(_PAUSE)

    def _after(self, error: BaseException | None) -> Statement[bool] | None:
        """What follows from the end of the block; nothing if the job was settled in it."""
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
            "job %s of %s was settled too late: its lease had ended, and another has it; "
            "call extend while you work",
            self.id,
            self.task,
        )

    # -- statements -------------------------------------------------------------------------------

    async def _run(self, statement: Statement[bool], again: bool = False) -> bool:
        self.settled = True
        client = await self._session.ready_client()
        return await client.play(scripts.settle(statement, again))

    def _run_sync(self, statement: Statement[bool], again: bool = False) -> bool:
        self.settled = True
        return self._session.client.play_sync(scripts.settle(statement, again))

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
    """A lease in seconds, as the functions in the database take it."""
    shortest, longest = _LEASES
    if not shortest <= (length := seconds(lease, name="lease")) <= longest:
        raise ConfigError(
            f"lease {lease!r} is not between a second and a day; keep it short and call extend "
            "while you work: after the lease another one gets the job"
        )
    return length
