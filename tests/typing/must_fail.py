"""Calls that must be refused. Never run: see test_typing.py.

A line that ends in the marker must be an error for both checkers, no other line may be one. With
the name of a checker behind the marker, only that one sees it: mypy leaves the calls of a function
unchecked where its signature mentions `Any`, because all overloads of `task` fit it then.
"""

from __future__ import annotations

from typing import Annotated, Any

from headway import (
    Context,
    Depends,
    Headway,
    Job,
    JobEvent,
    JobInfo,
    Retention,
    Retry,
    Snooze,
    SyncCallNext,
    WorkerOptions,
)

hw = Headway()


def get_number() -> int:
    return 1


@hw.task
async def welcome(ctx: Context, user_id: int, email: str = "") -> str:
    return email


@hw.task
async def add(a: int, b: int) -> int:
    return a + b


@hw.task(queue="files")
def plain(path: str) -> list[str]:
    return [path]


@hw.task(queue="files")
def plain_context(ctx: Context, path: str) -> bytes:
    return b""


@hw.task
async def keywords(*, limit: int) -> None: ...


@hw.task
async def nothing() -> None: ...


@hw.task
def with_any(data: dict[str, Any]) -> None: ...


@hw.task
async def with_any_and_context(ctx: Context, data: dict[str, Any]) -> str:
    return ""


@hw.task
def annotated(number: Annotated[int, Depends(get_number)], path: str) -> str:
    return path


@hw.task
def context_last(path: str, ctx: Context) -> str:
    return path


async def limits_of_checkers() -> None:
    """Right calls that a checker refuses: it sees a parameter that must be given.

    Such a parameter needs a default, `= Depends()`, and a Context belongs in the first place.
    """
    await annotated.enqueue(path="a")  # expect: error
    await context_last.enqueue("a")  # expect: error


async def arguments(ctx: Context) -> None:
    await welcome.enqueue(user_id="1")  # expect: error
    await welcome.enqueue()  # expect: error
    await welcome.enqueue(email="a")  # expect: error
    await welcome.enqueue(user_id=1, mail="a")  # expect: error
    await welcome.enqueue(1, "a", 2)  # expect: error
    await welcome.enqueue(1, user_id=1)  # expect: error
    await welcome.enqueue(ctx, 1)  # expect: error
    await welcome.enqueue(ctx=ctx, user_id=1)  # expect: error
    await add.enqueue(1)  # expect: error
    await add.enqueue(1, "2")  # expect: error
    await add.enqueue(1, None)  # expect: error
    await add.enqueue([1, 2])  # expect: error
    await plain.enqueue(1)  # expect: error
    await plain_context.enqueue(ctx, "a")  # expect: error
    await plain_context.enqueue(1)  # expect: error
    await keywords.enqueue(1)  # expect: error
    await keywords.enqueue(limit="1")  # expect: error
    await nothing.enqueue(1)  # expect: error
    await with_any.enqueue("a")  # expect: error
    await with_any_and_context.enqueue("a")  # expect: error pyright


def arguments_sync() -> None:
    welcome.enqueue_sync(user_id="1")  # expect: error
    welcome.call(user_id="1")  # expect: error
    add.using(delay="1m").enqueue_sync(1, "2")  # expect: error
    add.enqueue_many_sync([1, 2])  # expect: error
    hw.group([plain.call("a")]).then_sync(add)  # expect: error
    add.enqueue_many_sync([(1, 2)])  # expect: error
    add.enqueue_many_sync({"a": 1, "b": 2})  # expect: error


async def results() -> None:
    job = await add.enqueue(1, 2)
    text: str = await job.result()  # expect: error
    wrong: Job[str] = job  # expect: error
    (await job.result()).upper()  # expect: error
    job.result()["a"]  # expect: error
    await (await plain.enqueue("a")).result(timeout=[])  # expect: error
    length: int = len(await (await nothing.enqueue()).result())  # expect: error
    job.id = None  # expect: error
    flag: str = await job.cancel()  # expect: error
    print(text, wrong, length, flag)
    print((await job.status()).colour)  # expect: error


def task_options() -> None:
    hw.task(queue=1)  # expect: error
    hw.task(priority="high")  # expect: error
    hw.task(retry="5")  # expect: error
    hw.task(timeout=["30s"])  # expect: error
    hw.task(executor="fiber")  # expect: error
    hw.task(slots="2")  # expect: error
    hw.task(speed=3)  # expect: error
    hw.task("mail")  # expect: error
    add.using(delay=object())  # expect: error
    add.using(at="tomorrow")  # expect: error
    add.using(priority="high")  # expect: error
    add.using(headers={"a": 1})  # expect: error
    add.using(dely="1m")  # expect: error
    add.using("1m")  # expect: error


def other_options() -> None:
    Retry(max_attempts="8")  # expect: error
    Retry(8, "constant")  # expect: error
    Retry(backoff="cubic")  # expect: error
    Retry(backoff=lambda: 1)  # expect: error
    Retry(on=ValueError)  # expect: error
    Retry(never=("ValueError",))  # expect: error
    Snooze(None)  # expect: error
    Depends(get_number())  # expect: error
    Depends(get_number, scope="request")  # expect: error
    word: str = Depends(get_number)  # expect: error
    print(word)
    Headway(5432)  # expect: error
    Headway(notify="yes")  # expect: error
    Retention(suceeded="1d")  # expect: error
    WorkerOptions(concurrency="10")  # expect: error
    WorkerOptions(queues=["mail"])  # expect: error


async def workers() -> None:
    await hw.run_worker(queues=["mail"])  # expect: error
    await hw.run_worker(concurrency="10")  # expect: error
    await hw.run_worker(100)  # expect: error
    await hw.run_worker(lease=["3s"])  # expect: error
    await hw.run_worker(conccurrency=10)  # expect: error
    await hw.run_until_idle(listen="no")  # expect: error
    hw.run_until_idle_sync(batch="all")  # expect: error
    hw.worker(signals=True)  # expect: error
    await hw.queues.pause()  # expect: error
    await hw.queues.pause("mail", "provider down")  # expect: error
    await hw.queues.resume(1)  # expect: error
    hw.job(17)  # expect: error


def notify(event: JobEvent) -> None: ...


def wrong_middleware(job: JobInfo, call_next: SyncCallNext, more: int) -> object: ...


def hooks() -> None:
    hw.on("finished", notify)  # expect: error
    hw.on("worker_started", notify)  # expect: error
    hw.middleware(wrong_middleware)  # expect: error
    hw.enqueue_middleware(notify)  # expect: error
