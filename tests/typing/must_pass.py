"""Calls that must type-check, under pyright and mypy, both strict. Never run: see test_typing.py."""

# ruff: noqa: C408 - written as users write it

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, assert_type
from uuid import UUID

import psycopg

from headway import (
    Call,
    CallNext,
    Context,
    Depends,
    Fatal,
    Headway,
    Job,
    JobEvent,
    JobInfo,
    JobState,
    JobStatus,
    NewJobInfo,
    Retention,
    Retry,
    Snooze,
    SyncCallNext,
    WorkerEvent,
    WorkerOptions,
    current_job,
)

hw = Headway()
Headway("postgresql://localhost/app", schema="jobs", notify=False, pool_size=4)
Headway(retention=Retention(succeeded="1d", failed=timedelta(days=90)), max_payload_bytes=1024)


class Smtp:
    async def send(self, to: str) -> None: ...


@dataclass
class Receipt:
    order: int
    lines: list[str]


# -- dependencies: what a provider returns or yields is what the parameter is ----------------------


def get_smtp() -> Smtp:
    return Smtp()


async def get_smtp_async() -> Smtp:
    return Smtp()


def open_smtp() -> Iterator[Smtp]:
    yield Smtp()


async def open_smtp_async() -> AsyncIterator[Smtp]:
    yield Smtp()


assert_type(Depends(get_smtp), Smtp)
assert_type(Depends(get_smtp_async), Smtp)
assert_type(Depends(open_smtp), Smtp)
assert_type(Depends(open_smtp_async, scope="worker"), Smtp)


Mailer = Annotated[Smtp, Depends(get_smtp)]


# -- definitions: bare and with options, async and plain, with a Context and without ---------------


@hw.task(queue="mail", retry=Retry(max_attempts=8), timeout="30s")
async def welcome(ctx: Context, user_id: int, email: str, smtp: Smtp = Depends(get_smtp)) -> str:
    if not email:
        raise Fatal("no address")
    if ctx.attempt == 1:
        raise Snooze("5m")
    await ctx.progress(50, "rendering")
    await smtp.send(email)
    ctx.logger.info("sent", extra={"to": email})
    assert_type(ctx.job_id, UUID)
    assert_type(ctx.deadline, datetime | None)
    assert_type(ctx.cancelled, bool)
    return f"sent to {email}"


@hw.task
async def bare_context(ctx: Context, size: int) -> int:
    return size


@hw.task
async def bare(size: int, scale: float = 1.0) -> float:
    return size * scale


@hw.task
def plain_context(ctx: Context, path: str) -> bytes:
    ctx.progress_sync(10, path)
    return b""


@hw.task
def plain(path: str) -> list[str]:
    return [path]


@hw.task(
    name="resize-image",
    queue="images",
    priority=-5,
    retry=Retry(backoff=lambda attempt: attempt * 2.0, on=(OSError,), never=(FileNotFoundError,)),
    timeout=timedelta(minutes=5),
    ttl=3600,
    executor="process",
    slots=2,
)
def optioned(path: str) -> Receipt:
    return Receipt(1, [path])


@hw.task()
def optioned_context(ctx: Context, path: str) -> Receipt:
    return Receipt(ctx.attempt, [path])


@hw.task()
async def nothing() -> None: ...


@hw.task
async def only_context(ctx: Context) -> None: ...


@hw.task
async def anything(data: dict[str, int]) -> Any:
    return data


@hw.task
def plain_anything(data: str) -> Any:
    return data


@hw.task
async def generic(orders: list[int]) -> dict[str, list[Receipt]]:
    return {"receipts": [Receipt(order, []) for order in orders]}


@hw.task
async def keywords(ctx: Context, *, receipt: Receipt, smtp: Smtp = Depends(open_smtp)) -> None: ...


@hw.task
async def annotated(ctx: Context, email: str, smtp: Mailer = Depends()) -> Smtp:
    await smtp.send(email)
    return smtp


@hw.task
def annotated_required(email: str, smtp: Annotated[Smtp, Depends(get_smtp)]) -> str:
    assert_type(smtp, Smtp)
    return email


@hw.task
def context_last(email: str, ctx: Context) -> UUID:
    return ctx.job_id


@hw.task
async def untyped_first(payload: Any, copies: int = 1) -> str:
    return str(payload)


@hw.task
def object_first(payload: object) -> str:
    return str(payload)


# -- calls -----------------------------------------------------------------------------------------


async def enqueue() -> None:
    job = await welcome.enqueue(user_id=1, email="ada@example.com")
    assert_type(job, Job[str])
    assert_type(await annotated.enqueue("ada@example.com"), Job[Smtp])
    assert_type(annotated_required("ada@example.com"), Any)
    # Checkers see a required parameter; arguments in a mapping are checked when it is enqueued.
    assert_type(await annotated_required.enqueue_many([{"email": "a"}]), list[Job[str]])
    assert_type(await context_last.enqueue_many([{"email": "a"}]), list[Job[UUID]])
    assert_type(job.id, UUID)
    assert_type(await job.result(timeout="60s"), str)
    assert_type(await job.status(), JobStatus)
    assert_type(await job.cancel(), bool)
    assert_type(await job.retry(), bool)

    assert_type(await bare_context.enqueue(3), Job[int])
    assert_type(await bare_context.enqueue(size=3), Job[int])
    assert_type(await (await bare.enqueue(3, scale=2)).result(), float)
    assert_type(await plain_context.enqueue("a"), Job[bytes])
    assert_type(await (await plain.enqueue(path="a")).result(), list[str])
    assert_type(await optioned.enqueue("a"), Job[Receipt])
    assert_type(await optioned_context.enqueue("a"), Job[Receipt])
    assert_type(await nothing.enqueue(), Job[None])
    assert_type(await only_context.enqueue(), Job[None])
    assert_type(await (await anything.enqueue({"a": 1})).result(), Any)
    assert_type(await (await plain_anything.enqueue("a")).result(), Any)
    assert_type(await generic.enqueue([1]), Job[dict[str, list[Receipt]]])
    assert_type(await keywords.enqueue(receipt=Receipt(1, [])), Job[None])
    # A function that takes anything takes anything: its calls are not checked, and none is refused.
    await untyped_first.enqueue({"a": 1})
    await untyped_first.enqueue(payload=[1], copies=2)
    await object_first.enqueue("a")
    assert_type(await object_first.enqueue(payload="a"), Job[str])


def enqueue_sync() -> None:
    job = welcome.enqueue_sync(1, "ada@example.com")
    assert_type(job, Job[str])
    assert_type(job.result_sync(timeout=10), str)
    assert_type(job.status_sync(), JobStatus)
    assert_type(job.cancel_sync(), bool)
    assert_type(job.retry_sync(), bool)
    assert_type(plain.using(delay="10m").enqueue_sync("a"), Job[list[str]])


async def many() -> None:
    calls = [dict(user_id=1, email="a"), dict(user_id=2, email="b")]
    assert_type(await welcome.enqueue_many(calls), list[Job[str]])
    special = welcome.using(priority=5).call(user_id=3, email="c")
    assert_type(special, Call[str])
    assert_type(await hw.enqueue_many([special, plain.call("a")]), list[Job[Any]])
    assert_type(await hw.group([special]).then(plain.call("a"), all_but=1), Job[list[str]])
    assert_type(hw.enqueue_many_sync([special], conn=None), list[Job[Any]])
    assert_type(await welcome.enqueue_many([special, {"user_id": 4, "email": "d"}]), list[Job[str]])
    assert_type(welcome.enqueue_many_sync(welcome.call(n, "e") for n in range(3)), list[Job[str]])


async def options(tx: psycopg.AsyncConnection[Any], sync_tx: psycopg.Connection[Any]) -> None:
    later = welcome.using(
        delay="10m",
        priority=5,
        queue="slow",
        ttl="1d",
        timeout=timedelta(seconds=30),
        retry=Retry(max_attempts=2, backoff="linear", base="1s", cap="1m", jitter=0),
        headers={"trace": "1"},
        conn=tx,
    )
    assert_type(await later.enqueue(user_id=1, email="ada@example.com"), Job[str])
    await welcome.using(at=datetime(2030, 1, 1, tzinfo=UTC)).enqueue(1, "ada@example.com")
    welcome.using(conn=sync_tx).enqueue_sync(1, "ada@example.com")


async def handles() -> None:
    assert_type(hw.job("0190b6e0-0000-7000-8000-000000000000"), Job[Any])
    assert_type(await hw.enqueue("welcome", user_id=1, email="a"), Job[Any])
    async with hw as same:
        assert_type(same, Headway)
    with hw:
        hw.migrate_sync()
    assert_type(await hw.migrate(), list[str])
    assert_type(hw.dsn, str)
    status = await hw.job(UUID(int=0)).status()
    assert_type(status.state, JobState)
    assert_type(status.attempt, int)
    assert_type(status.run_at, datetime)
    assert_type(status.error, dict[str, Any] | None)


async def workers() -> None:
    report = await hw.run_worker(queues={"mail": 20, "default": 4}, concurrency=100)
    assert_type(report.total, int)
    await hw.run_worker(signals=False, grace="10s", lease=30, listen=False)
    await hw.run_until_idle()
    hw.run_until_idle_sync(concurrency=5)
    WorkerOptions(queues={"mail": 2}, poll=timedelta(seconds=5), batch=100)


async def queues() -> None:
    await hw.queues.pause("mail", reason="provider down")
    assert_type(await hw.queues.resume("mail"), bool)
    assert_type([queue.ready for queue in await hw.queues.list()], list[int])


def calling_it_here() -> None:
    """A task is still a function."""
    assert plain("a") == ["a"]


@hw.middleware
async def trace(job: JobInfo, call_next: CallNext) -> object:
    assert_type(job.job_id, UUID)
    return await call_next()


@hw.middleware
def close_connections(job: JobInfo, call_next: SyncCallNext) -> object:
    return call_next()


@hw.enqueue_middleware
def inject(jobs: Sequence[NewJobInfo]) -> Iterator[None]:
    for job in jobs:
        job.headers["trace"] = str(job.job_id)
    yield


@hw.on("failed")
async def notify(event: JobEvent) -> None:
    assert_type(event.exception, BaseException | None)


@hw.on("worker_stopped")
def stopped(event: WorkerEvent) -> None: ...


hw.on("retried", notify)
hw.on("succeeded", lambda event: print(event.job.handler))
assert_type(current_job(), JobInfo | None)
