"""Batch tasks that must type-check, under both checkers. Never run: see test_typing.py."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type

from headway import Batch, Context, Depends, Headway, Job, Key, Retry, Task

hw = Headway()


@dataclass
class Document:
    id: int
    text: str = ""


class Search:
    async def add(self, documents: Sequence[Document]) -> list[str]:
        return [document.text for document in documents]


def get_search() -> Search:
    return Search()


Batch(100)
Batch(size=100, wait="1s")
Batch(100, wait=timedelta(seconds=1))
Batch(100, wait=0.5)


# -- definitions: async and plain, with contexts and without, with what it answers ------------------


@hw.task(batch=Batch(size=100, wait="1s"))
async def index(documents: list[Document]) -> list[str]:
    return [document.text for document in documents]


@hw.task(batch=Batch(10), queue="search", retry=Retry(max_attempts=3), timeout="1m", slots=20)
async def index_context(
    contexts: list[Context], documents: list[Document], search: Search = Depends(get_search)
) -> list[str]:
    for context in contexts:
        await context.progress(50, "sent")
    return await search.add(documents)


@hw.task(batch=Batch(10))
async def index_injected(
    documents: list[Document], search: Search = Depends(get_search)
) -> list[str]:
    return await search.add(documents)


@hw.task(batch=Batch(10))
async def swallow(documents: list[Document]) -> None: ...


@hw.task(batch=Batch(10))
def plain(numbers: list[int]) -> list[float]:
    return [number / 2 for number in numbers]


@hw.task(batch=Batch(10))
def plain_context(contexts: list[Context], numbers: list[int]) -> None:
    contexts[0].progress_sync(10)


@hw.task(batch=Batch(10))
async def with_errors(numbers: list[int]) -> list[str | Exception]:
    return [str(number) if number else ValueError("zero") for number in numbers]


@hw.task(batch=Batch(10))
async def gathered(numbers: list[int]) -> list[str | BaseException]:
    return await asyncio.gather(*map(text, numbers), return_exceptions=True)


async def text(number: int) -> str:
    return str(number)


@hw.task(batch=Batch(10))
def sequences(numbers: Sequence[int]) -> Sequence[int]:
    return numbers


@hw.task(batch=Batch(10))
def tuples(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(numbers)


@hw.task(batch=Batch(10))
async def optional(numbers: list[int | None]) -> list[str | None]:
    return [None for _ in numbers]


def tenant_of(rows: dict[str, Any]) -> str:
    return f"tenant-{rows['tenant']}"


@hw.task(batch=Batch(10), concurrency_key=Key(tenant_of, limit=2))
async def dicts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows


@hw.task(batch=Batch(10))
async def anything(rows: list[Any]) -> list[int]:
    return [1 for _ in rows]


assert_type(index, Task[[Document], str])
assert_type(index_context, Task[[Document], str])
assert_type(index_injected, Task[[Document], str])
assert_type(swallow, Task[[Document], None])
assert_type(plain, Task[[int], float])
assert_type(plain_context, Task[[int], None])
assert_type(with_errors, Task[[int], str])
assert_type(gathered, Task[[int], str])
assert_type(sequences, Task[[int], int])
assert_type(tuples, Task[[int], int])
assert_type(optional, Task[[int | None], str | None])
assert_type(dicts, Task[[dict[str, Any]], dict[str, Any]])


# -- calls: each with one item ----------------------------------------------------------------------


async def calls(ctx: Context) -> None:
    job = await index.enqueue(Document(1))
    assert_type(job, Job[str])
    assert_type(await job.result(timeout="10s"), str)
    assert_type(index.using(delay="10m").enqueue_sync(Document(1)).result_sync(), str)
    await index.enqueue_many([{"documents": Document(1)}, index.call(Document(2))])
    assert_type(await (await swallow.enqueue(Document(1))).result(), None)
    assert_type(await (await with_errors.enqueue(1)).result(), str)
    await optional.enqueue(None)
    await dicts.enqueue({"tenant": "acme"})
    await anything.enqueue(1)
    await anything.enqueue("a")
    await ctx.enqueue(index, Document(1))
    ctx.enqueue_sync(plain.using(priority=3), 1)
    await index([Document(1)])
