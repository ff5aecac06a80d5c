"""`hw.pull`: jobs for consumers that are no workers, one by one as they come.

While there is nothing to claim no connection is held but the one that listens, and no transaction is
open. Where nothing can be heard, and for what becomes due where no worker lives to say so, it looks
now and then.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from headway.core.clock import monotonic
from headway.core.duration import Duration
from headway.core.names import check_name
from headway.engine.notify.ready import concerns
from headway.errors import ConfigError, DatabaseUnavailable
from headway.pulled import PulledJob, check_lease, log
from headway.session import Session
from headway.store import pulls
from headway.store.listen import patience
from headway.store.pulls import Pulled
from headway.store.statement import Statement

_LOOK_AGAIN = 2.0
_LOOK_AGAIN_ALONE = 1.0
"""Where no worker lives, a claim is also what makes due jobs ready."""
_PAUSE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """What a consumer claims: so many at a time, of these tasks or of all."""

    queue: str
    lease: Duration = "30s"
    count: int = 1
    tasks: Sequence[str] | None = None

    def __post_init__(self) -> None:
        check_name(self.queue, "queue")
        check_lease(self.lease)
        if type(self.count) is not int or not 1 <= self.count <= 10_000:
            raise ConfigError(
                f"count {self.count!r} is not from 1 to 10000; claim as many as you can run within "
                "the lease"
            )
        if isinstance(self.tasks, str):
            raise ConfigError(f"tasks={self.tasks!r} is a text; give a list: [{self.tasks!r}]")
        if self.tasks is not None and not self.tasks:
            raise ConfigError("tasks names none; leave it out for all of them")
        if self.queue == "*":
            raise ConfigError("a consumer pulls from one queue; '*' is for workers")
        for task in self.tasks or ():
            check_name(task, "task")

    def statement(self) -> Statement[Pulled]:
        return pulls.pull(self.queue, self.count, check_lease(self.lease), self.tasks)

    def jobs(self, session: Session, pulled: Pulled, asked_at: float) -> Sequence[PulledJob]:
        lease = check_lease(self.lease)
        return [PulledJob.of(session, row, lease, asked_at) for row in pulled.claimed]


class Pulling:
    """The part of `Headway` that hands jobs to consumers."""

    session: Session

    def pull(
        self,
        queue: str,
        *,
        lease: Duration = "30s",
        count: int = 1,
        tasks: Sequence[str] | None = None,
    ) -> AsyncGenerator[PulledJob, None]:
        """Jobs of a queue for a consumer that is no worker, for ever and as they come: of all tasks, or
        of `tasks` (a task, or flow/step); `count` are claimed at a time.

        >>> async for job in hw.pull("ext", lease="30s"):               # doctest: +SKIP
        ...     async with job:
        ...         await work(job.input)
        """
        return _pull(self.session, Pull(queue=queue, lease=lease, count=count, tasks=tasks))

    def pull_sync(
        self,
        queue: str,
        *,
        lease: Duration = "30s",
        count: int = 1,
        tasks: Sequence[str] | None = None,
    ) -> Generator[PulledJob, None, None]:
        """As `pull`."""
        return _pull_sync(self.session, Pull(queue=queue, lease=lease, count=count, tasks=tasks))


async def _pull(session: Session, wanted: Pull) -> AsyncGenerator[PulledJob, None]:
    """Jobs for ever, as they come; what was claimed and not handed out goes back at the end."""
    client, arrivals = await session.ready_client(), await session.arrivals()
    claimed: deque[PulledJob] = deque()
    tries, reachable = 0, True
    try:
        with arrivals.of(wanted.queue) as news:
            while True:
                news.clear()
                asked_at = monotonic()
                try:
                    pulled = await client.run(wanted.statement())
                except DatabaseUnavailable as error:
                    _unreachable(error, reachable)
                    reachable = False
                    await asyncio.sleep(_PAUSE)
                    continue
                reachable = True
                claimed.extend(wanted.jobs(session, pulled, asked_at))
                tries = 0 if claimed else tries + 1
                while claimed:
                    kept = await _kept(claimed[0])
                    job = claimed.popleft()
                    if kept:
                        yield job
                if tries:
                    await arrivals.wait(news, _rest(arrivals.hears, tries, pulled))
    finally:
        with suppress(DatabaseUnavailable):  # then they come back when their lease ends
            for job in claimed:
                await job.release()


def _pull_sync(session: Session, wanted: Pull) -> Generator[PulledJob, None, None]:
    """As `pull`, in a thread."""
    client = session.client
    claimed: deque[PulledJob] = deque()
    tries, reachable = 0, True
    with session.arrivals_sync() as ear:
        try:
            while True:
                asked_at = monotonic()
                try:
                    pulled = client.run_sync(wanted.statement())
                except DatabaseUnavailable as error:
                    _unreachable(error, reachable)
                    reachable = False
                    time.sleep(_PAUSE)
                    continue
                reachable = True
                claimed.extend(wanted.jobs(session, pulled, asked_at))
                tries = 0 if claimed else tries + 1
                while claimed:
                    kept = _kept_sync(claimed[0])
                    job = claimed.popleft()
                    if kept:
                        yield job
                if tries:
                    ear.wait_until(
                        lambda said: concerns(said, wanted.queue), _rest(ear.hears, tries, pulled)
                    )
        finally:
            with suppress(DatabaseUnavailable):
                for job in claimed:
                    job.release_sync()


async def _kept(job: PulledJob) -> bool:
    """Whether it is still ours to hand out. One that is to be cancelled is given back and so ends; one
    whose lease could not be lengthened is left to it."""
    with suppress(DatabaseUnavailable):
        if not job.lingered or await job.extend():
            return True
        await job.release()
    return False


def _kept_sync(job: PulledJob) -> bool:
    """As `_kept`."""
    with suppress(DatabaseUnavailable):
        if not job.lingered or job.extend_sync():
            return True
        job.release_sync()
    return False


def _rest(hears: bool, tries: int, pulled: Pulled) -> float:
    if not hears:
        return patience(False, tries)
    return _LOOK_AGAIN if pulled.fleet_lives else _LOOK_AGAIN_ALONE


def _unreachable(error: DatabaseUnavailable, reachable: bool) -> None:
    if reachable:
        log.warning("%s; jobs are pulled once it can be reached again", error)
