"""Calls that are ready to be enqueued, and their way into the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypeVar
from uuid import UUID

from headway._api.enqueuing import enqueuing
from headway._api.new_job import check_size, checked_headers, chunks, portions
from headway._api.session import Session
from headway.core.definition import Definition
from headway.core.hooks import NewJobInfo
from headway.core.ids import new_ids
from headway.errors import InvalidInput
from headway.job import Job
from headway.store.connections.connect import Target
from headway.store.connections.identity import Identity
from headway.store.documents import NewJob, PlainShape
from headway.store.statement import Statement
from headway.store.statements import jobs, plain

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """One call of a task, checked and ready to be enqueued with others. Made by `task.call(...)`.

    It makes one job. Enqueued again, it makes nothing new.
    """

    job: NewJob
    definition: Definition = field(repr=False)
    _session: Session = field(repr=False)

    def is_of(self, session: Session) -> bool:
        """Return whether this session's app defines the task."""
        return self._session is session

    def into(self, children: list[Any]) -> Job[R]:
        """Add the job to those that an attempt makes if it succeeds. Return its handle."""
        with around_enqueue(self._session, [self]):
            children.append(self.job)
        return self.handle()

    def handle(self, holder: str | None = None) -> Job[R]:
        """Return a handle on the job of this call, or on the job that holds its unique key."""
        typed = None if self.definition.flow else self.definition
        return Job(self._session, UUID(holder or self.job.id), typed, created=holder is None)


def check_calls(calls: Iterable[Call[Any]]) -> list[Call[Any]]:
    """Return the calls as a list. Raise InvalidInput if one of them is not a call."""
    if not isinstance(calls, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"{calls!r} is not a list of calls; give [task.call(...), ...]")
    found = list(calls)
    for position, call in enumerate(found):
        if not isinstance(call, Call):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"item {position} is {call!r}; give task.call(...)")
    return found


def around_enqueue(session: Session, calls: Sequence[Call[Any]]) -> AbstractContextManager[None]:
    """Return the enqueue middleware of the app around the making of these jobs."""
    if not session.hooks.enqueue:
        return nullcontext()
    made = {call.job.id: call for call in calls}

    def take(info: NewJobInfo) -> None:
        call = made[str(info.job_id)]
        call.job.headers = info.headers or None
        headers = checked_headers(info.headers)
        encoded = bytes(call.job.input)
        check_size(call.definition, encoded, headers, session.max_payload_bytes)

    new = [
        NewJobInfo(
            job_id=UUID(call.job.id),
            task=call.job.task,
            step=call.job.step,
            queue=call.job.queue,
            headers=dict(call.job.headers or {}),
            _input=bytes(call.job.input),
        )
        for call in calls
    ]
    return enqueuing(session.hooks.enqueue, new, take)


def check_sendable(session: Session, calls: Sequence[Call[Any]]) -> None:
    """Raise InvalidInput if a call is of another app, or is given twice: a call makes one job."""
    seen = set[str]()
    for position, call in enumerate(calls):
        if not call.is_of(session):
            raise InvalidInput(
                f"item {position} is a call of another app; enqueue it with the app that defines "
                f"{call.job.task}"
            )
        if call.job.id in seen:
            raise InvalidInput(
                f"item {position} is a call that the list has already; make one for each job"
            )
        seen.add(call.job.id)


async def send(session: Session, calls: Sequence[Call[R]], conn: Any) -> list[Job[R]]:
    """Enqueue calls, all or none. Return their handles in order.

    `conn` is the caller's connection, in whose transaction the jobs are made.
    """
    if not calls:
        return []
    check_sendable(session, calls)
    new = [call.job for call in calls]
    await session.ready_client()
    with around_enqueue(session, calls):
        if conn is not None:
            taken = await session.run_in(conn, lambda place: _statements_in(session, new, place))
        else:
            withdraw = partial(_withdraw, [job.id for job in new])
            taken = await session.run_all(_statements(session, new), on_repeat=withdraw)
    return _handles(calls, taken)


async def send_one(
    session: Session, shape: PlainShape, input_: bytes, typed: Definition | None, conn: Any
) -> Job[Any]:
    """Enqueue one plain job. Return its handle.

    If the insert into the caller's transaction makes nothing, `conn` may lead elsewhere. The function for
    all other jobs finds out, and makes the job of the same id if it does not.
    """
    (job_id,) = new_ids(1)
    client = await session.ready_client()
    if conn is None:
        insert = plain.enqueue_one(shape, job_id, input_)
        await client.run_one(insert, on_repeat=partial(_withdraw, [job_id]))
    else:
        make = partial(_statement_in, session.target, shape, job_id, input_)
        if not (await client.run_in(conn, make))[0]:
            new = [shape.job(job_id, input_)]
            await client.run_in(conn, lambda place: _statements_in(session, new, place))
    return Job(session, job_id, typed)


async def send_alike(
    session: Session, shape: PlainShape, inputs: Sequence[bytes], typed: Definition | None
) -> list[Job[Any]]:
    """Enqueue plain jobs of one shape, all or none. Return their handles in order."""
    if not inputs:
        return []
    ids = new_ids(len(inputs))
    client = await session.ready_client()
    inserts = [
        plain.enqueue_alike(shape, ids[first:end], inputs[first:end])
        for first, end in portions(inputs)
    ]
    await client.run_all(inserts, on_repeat=partial(_withdraw, ids))
    return [Job(session, job_id, typed) for job_id in ids]


# -- sync: generated by scripts/sync from the async functions; do not edit --


def send_sync(session: Session, calls: Sequence[Call[R]], conn: Any) -> list[Job[R]]:
    """Sync version of `send`.

    Enqueue calls, all or none. Return their handles in order.
    """
    if not calls:
        return []
    check_sendable(session, calls)
    new = [call.job for call in calls]
    session.ready_client_sync()
    with around_enqueue(session, calls):
        if conn is not None:
            taken = session.run_in_sync(conn, lambda place: _statements_in(session, new, place))
        else:
            withdraw = partial(_withdraw, [job.id for job in new])
            taken = session.run_all_sync(_statements(session, new), on_repeat=withdraw)
    return _handles(calls, taken)


def send_one_sync(
    session: Session, shape: PlainShape, input_: bytes, typed: Definition | None, conn: Any
) -> Job[Any]:
    """Sync version of `send_one`.

    Enqueue one plain job. Return its handle.
    """
    (job_id,) = new_ids(1)
    client = session.ready_client_sync()
    if conn is None:
        insert = plain.enqueue_one(shape, job_id, input_)
        client.run_one_sync(insert, on_repeat=partial(_withdraw, [job_id]))
    else:
        make = partial(_statement_in, session.target, shape, job_id, input_)
        if not (client.run_in_sync(conn, make))[0]:
            new = [shape.job(job_id, input_)]
            client.run_in_sync(conn, lambda place: _statements_in(session, new, place))
    return Job(session, job_id, typed)


def send_alike_sync(
    session: Session, shape: PlainShape, inputs: Sequence[bytes], typed: Definition | None
) -> list[Job[Any]]:
    """Sync version of `send_alike`.

    Enqueue plain jobs of one shape, all or none. Return their handles in order.
    """
    if not inputs:
        return []
    ids = new_ids(len(inputs))
    client = session.ready_client_sync()
    inserts = [
        plain.enqueue_alike(shape, ids[first:end], inputs[first:end])
        for first, end in portions(inputs)
    ]
    client.run_all_sync(inserts, on_repeat=partial(_withdraw, ids))
    return [Job(session, job_id, typed) for job_id in ids]


# -- end of the generated functions --


def _statements(session: Session, new: Sequence[NewJob]) -> list[Statement[Any]]:
    target, now = session.target, _now(session, new)
    return [jobs.enqueue(target, chunk, now, notify_after=True) for chunk in chunks(new)]


def _now(session: Session, new: Sequence[NewJob]) -> datetime | None:
    """Return the time of a test, None in production. The caller computed `at` by this machine's clock,
    which has gone on while that of the test stood."""
    if any(job.at is not None for job in new):
        session.clock.catch_up()
    return session.clock.now()


def _withdraw(ids: Sequence[str]) -> list[Statement[Any]]:
    """Return the statement that takes back those of these jobs that a lost try had made."""
    return [jobs.withdraw(ids)]


def _statement_in(
    target: Target, shape: PlainShape, job_id: str, input_: bytes, place: Identity
) -> list[Statement[Any]]:
    return [plain.enqueue_one_in(target, shape, job_id, input_, place)]


def _statements_in(
    session: Session, new: Sequence[NewJob], place: Identity
) -> list[Statement[Any]]:
    """Return the same for the caller's connection, which must lead to `place`."""
    target, now = session.target, _now(session, new)
    return [jobs.enqueue_in(target, chunk, now, place) for chunk in chunks(new)]


def _handles(calls: Sequence[Call[R]], taken: Sequence[dict[str, str]]) -> list[Job[R]]:
    holders = {asked: holder for answer in taken for asked, holder in answer.items()}
    return [call.handle(holders.get(call.job.id)) for call in calls]
