"""`hw.jobs`: find, count, explain and retry jobs."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Unpack
from uuid import UUID

from headway._api.by_name import enqueue_by_name
from headway._api.job_filters import (
    States,
    check_limit,
    job_id_of,
    job_ids_of,
    states_of,
    text_of,
)
from headway._api.new_job import CallOptions, Options
from headway._api.session import Session
from headway.core.duration import Duration
from headway.core.failure import Failure
from headway.core.info import FailedJob, JobStatus, JobSummary, Successor
from headway.failures import Which, bad_pattern_explained, check_since, find, moment, retry_all
from headway.job import Job
from headway.store.scripts import Script
from headway.store.statements import inspect


class Jobs:
    """The jobs of one app's schema, live and finished.

    >>> await hw.jobs.list(state="failed", task="welcome", limit=10)            # doctest: +SKIP
    >>> await hw.jobs.count(queue="mail", state=["ready", "scheduled"])         # doctest: +SKIP
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def get(self, job_id: UUID | str) -> JobStatus:
        """Return everything that is stored about a job. Raise JobNotFound if it does not exist."""
        return await self._job(job_id).status()

    async def enqueue(
        self,
        task: str,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - as jobs call it
        *,
        limit_key: str | None = None,
        no_keys: bool = False,
        **options: Unpack[CallOptions],
    ) -> Job[Any]:
        """Enqueue a job of a task or flow by its name, without its code, with what workers declared.

        `limit_key` is the key for a limit of the task that is per key. Keys that the task's code would
        compute have to be given; `no_keys` leaves them out.
        """
        new = enqueue_by_name(
            self._session,
            task,
            input or {},
            Options.of(options),
            limit_key=limit_key,
            no_keys=no_keys,
        )
        with new.around(self._session):
            holder = await self._session.run(new.statement())
        return Job(self._session, holder, None, created=holder == new.info.job_id)

    async def list(
        self,
        *,
        state: States | None = None,
        task: str | None = None,
        step: str | None = None,
        queue: str | None = None,
        before: UUID | str | None = None,
        limit: int = 50,
    ) -> builtins.list[JobSummary]:
        """Return jobs without their payloads, the newest first.

        `before` is the last id of the page before. `limit` is the size of a page, at most 100,000.
        """
        check_limit(limit)
        page = inspect.jobs(
            states=states_of(state),
            task=text_of(task, "task"),
            step=text_of(step, "step"),
            queue=text_of(queue, "queue"),
            before=None if before is None else job_id_of(before),
            limit=limit,
        )
        return await self._session.run(page)

    async def count(
        self,
        *,
        state: States | None = None,
        task: str | None = None,
        step: str | None = None,
        queue: str | None = None,
    ) -> int:
        """Return how many jobs match. It reads each of them; `hw.queues.metrics` is cheap."""
        counted = inspect.count(
            states=states_of(state),
            task=text_of(task, "task"),
            step=text_of(step, "step"),
            queue=text_of(queue, "queue"),
        )
        return await self._session.run(counted)

    async def explain(self, job_id: UUID | str) -> builtins.list[str]:
        """Return why a job does not run, or how it ended: the most certain reason first."""
        return await self._job(job_id).explain()

    async def failures(
        self,
        *,
        task: str | None = None,
        since: datetime | Duration | None = None,
        limit: int = 20,
    ) -> builtins.list[Failure]:
        """Return the newest failures, the oldest of them first. `hw.failures` follows them.

        `since` is a moment, or a duration before now.
        """
        check_since(since)
        check_limit(limit)
        return await self._session.run(self._failures(text_of(task, "task"), since, limit))

    async def failed(
        self,
        *,
        task: str | None = None,
        step: str | None = None,
        error: str | None = None,
        since: datetime | Duration | None = None,
        limit: int | None = None,
    ) -> builtins.list[FailedJob]:
        """Return the failed jobs that `retry_failed` with the same options would retry."""
        which = Which(task=task, step=step, error=error, since=since, limit=limit)
        with bad_pattern_explained(error):
            return await self._session.run(find(self._session, which))

    async def retry_failed(
        self,
        *,
        task: str | None = None,
        step: str | None = None,
        error: str | None = None,
        since: datetime | Duration | None = None,
        limit: int | None = None,
        from_step: str | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> int:
        """Retry failed jobs, each where it failed and with fresh attempts. Return how many.

        At least one of `task`, `step`, `error` and `since` is needed. `error` is a regular expression,
        looked for in "type: message". `since` is a moment, or a duration before now. `limit` takes the
        oldest. `from_step` goes back to an earlier step. `on_progress` is called with the number of
        jobs tried so far.
        """
        which = Which(task=task, step=step, error=error, since=since, limit=limit)
        with bad_pattern_explained(error):
            found = await self._session.run(find(self._session, which))
        ids = [job.id for job in found]
        return await self._session.run(retry_all(ids, from_step, on_progress))

    async def retry(
        self,
        job_ids: Iterable[UUID | str],
        *,
        from_step: str | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> int:
        """Retry these jobs with fresh attempts. Return how many there was something to retry of.

        `from_step` goes back to an earlier step of a flow. `on_progress` is called with the number of
        jobs tried so far.
        """
        return await self._session.run(retry_all(job_ids_of(job_ids), from_step, on_progress))

    async def successors(self, job_id: UUID | str) -> builtins.list[Successor]:
        """Return the jobs that were made because this one failed."""
        return await self._session.run(inspect.successors(job_id_of(job_id)))

    async def unserved(self) -> dict[str, int]:
        """Return how many ready jobs there are of each task that no live worker knows."""
        return await self._session.run(inspect.stranded(self._session.clock.now()))

    # -- sync: generated by scripts/sync from the async methods; do not edit --

    def get_sync(self, job_id: UUID | str) -> JobStatus:
        """Sync version of `get`.

        Return everything that is stored about a job. Raise JobNotFound if it does not exist.
        """
        return self._job(job_id).status_sync()

    def enqueue_sync(
        self,
        task: str,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - as jobs call it
        *,
        limit_key: str | None = None,
        no_keys: bool = False,
        **options: Unpack[CallOptions],
    ) -> Job[Any]:
        """Sync version of `enqueue`.

        Enqueue a job of a task or flow by its name, without its code, with what workers
        declared.
        """
        new = enqueue_by_name(
            self._session,
            task,
            input or {},
            Options.of(options),
            limit_key=limit_key,
            no_keys=no_keys,
        )
        with new.around(self._session):
            holder = self._session.run_sync(new.statement())
        return Job(self._session, holder, None, created=holder == new.info.job_id)

    def list_sync(
        self,
        *,
        state: States | None = None,
        task: str | None = None,
        step: str | None = None,
        queue: str | None = None,
        before: UUID | str | None = None,
        limit: int = 50,
    ) -> builtins.list[JobSummary]:
        """Sync version of `list`.

        Return jobs without their payloads, the newest first.
        """
        check_limit(limit)
        page = inspect.jobs(
            states=states_of(state),
            task=text_of(task, "task"),
            step=text_of(step, "step"),
            queue=text_of(queue, "queue"),
            before=None if before is None else job_id_of(before),
            limit=limit,
        )
        return self._session.run_sync(page)

    def count_sync(
        self,
        *,
        state: States | None = None,
        task: str | None = None,
        step: str | None = None,
        queue: str | None = None,
    ) -> int:
        """Sync version of `count`.

        Return how many jobs match. It reads each of them; `hw.queues.metrics` is cheap.
        """
        counted = inspect.count(
            states=states_of(state),
            task=text_of(task, "task"),
            step=text_of(step, "step"),
            queue=text_of(queue, "queue"),
        )
        return self._session.run_sync(counted)

    def explain_sync(self, job_id: UUID | str) -> builtins.list[str]:
        """Sync version of `explain`.

        Return why a job does not run, or how it ended: the most certain reason first.
        """
        return self._job(job_id).explain_sync()

    def failures_sync(
        self,
        *,
        task: str | None = None,
        since: datetime | Duration | None = None,
        limit: int = 20,
    ) -> builtins.list[Failure]:
        """Sync version of `failures`.

        Return the newest failures, the oldest of them first. `hw.failures` follows them.
        """
        check_since(since)
        check_limit(limit)
        return self._session.run_sync(self._failures(text_of(task, "task"), since, limit))

    def failed_sync(
        self,
        *,
        task: str | None = None,
        step: str | None = None,
        error: str | None = None,
        since: datetime | Duration | None = None,
        limit: int | None = None,
    ) -> builtins.list[FailedJob]:
        """Sync version of `failed`.

        Return the failed jobs that `retry_failed` with the same options would retry.
        """
        which = Which(task=task, step=step, error=error, since=since, limit=limit)
        with bad_pattern_explained(error):
            return self._session.run_sync(find(self._session, which))

    def retry_failed_sync(
        self,
        *,
        task: str | None = None,
        step: str | None = None,
        error: str | None = None,
        since: datetime | Duration | None = None,
        limit: int | None = None,
        from_step: str | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> int:
        """Sync version of `retry_failed`.

        Retry failed jobs, each where it failed and with fresh attempts. Return how many.
        """
        which = Which(task=task, step=step, error=error, since=since, limit=limit)
        with bad_pattern_explained(error):
            found = self._session.run_sync(find(self._session, which))
        ids = [job.id for job in found]
        return self._session.run_sync(retry_all(ids, from_step, on_progress))

    def retry_sync(
        self,
        job_ids: Iterable[UUID | str],
        *,
        from_step: str | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> int:
        """Sync version of `retry`.

        Retry these jobs with fresh attempts. Return how many there was something to retry of.
        """
        return self._session.run_sync(retry_all(job_ids_of(job_ids), from_step, on_progress))

    def successors_sync(self, job_id: UUID | str) -> builtins.list[Successor]:
        """Sync version of `successors`.

        Return the jobs that were made because this one failed.
        """
        return self._session.run_sync(inspect.successors(job_id_of(job_id)))

    def unserved_sync(self) -> dict[str, int]:
        """Sync version of `unserved`.

        Return how many ready jobs there are of each task that no live worker knows.
        """
        return self._session.run_sync(inspect.stranded(self._session.clock.now()))

    # -- end of the generated methods --

    def _job(self, job_id: UUID | str) -> Job[Any]:
        return Job(self._session, job_id_of(job_id), None)

    def _failures(
        self, task: str | None, since: datetime | Duration | None, limit: int
    ) -> Script[builtins.list[Failure]]:
        begin = yield from moment(self._session, since)
        found: builtins.list[Failure] = yield inspect.errors(task, begin, limit)
        return found
