"""Batch tasks that must be refused. Never run: see test_typing.py, and must_fail.py for the marker."""

from __future__ import annotations

from dataclasses import dataclass

from headway import Batch, Context, Depends, Headway, Job, Retry

hw = Headway()


@dataclass
class Document:
    id: int


def get_number() -> int:
    return 1


@hw.task(batch=Batch(10, wait="1s"))
async def index(documents: list[Document]) -> list[str]:
    return [str(document.id) for document in documents]


@hw.task(batch=Batch(10))
async def index_context(
    contexts: list[Context], documents: list[Document], number: int = Depends(get_number)
) -> list[str | Exception]:
    return [str(document.id) for document in documents]


@hw.task(batch=Batch(10), retry=Retry(max_attempts=3))
def plain(numbers: list[int]) -> list[float]:
    return [number / 2 for number in numbers]


@hw.task(batch=Batch(10))
def swallow(numbers: list[int]) -> None: ...


async def arguments(ctx: Context) -> None:
    await index.enqueue([Document(1)])  # expect: error
    await index.enqueue(1)  # expect: error
    await index.enqueue("a")  # expect: error
    await index.enqueue()  # expect: error
    await index.enqueue(Document(1), Document(2))  # expect: error
    await index.enqueue(document=Document(1))  # expect: error
    await index.enqueue(None)  # expect: error
    await index_context.enqueue([ctx], Document(1))  # expect: error
    await index_context.enqueue(ctx, Document(1))  # expect: error
    await index_context.enqueue([Document(1)])  # expect: error
    await index_context.enqueue(Document(1), 3)  # expect: error
    await plain.enqueue("1")  # expect: error
    await plain.enqueue([1])  # expect: error
    await plain.enqueue(1, 2)  # expect: error
    await swallow.enqueue()  # expect: error
    await ctx.enqueue(index)  # expect: error
    await ctx.enqueue(index, 1)  # expect: error
    await ctx.enqueue(index, [Document(1)])  # expect: error
    ctx.enqueue_sync(plain, "1")  # expect: error


def arguments_sync() -> None:
    index.enqueue_sync([Document(1)])  # expect: error
    index.call(1)  # expect: error
    index.using(delay="1m").enqueue_sync(1)  # expect: error
    index.enqueue_many_sync([Document(1)])  # expect: error
    plain.using(dely="1m")  # expect: error


async def results() -> None:
    job = await index.enqueue(Document(1))
    number: int = await job.result()  # expect: error
    wrong: Job[list[str]] = job  # expect: error
    many: list[str] = await job.result()  # expect: error
    both: str = await (await plain.enqueue(1)).result()  # expect: error
    length: int = len(await (await swallow.enqueue(1)).result())  # expect: error
    error: Exception = await (await index_context.enqueue(Document(1))).result()  # expect: error
    print(number, wrong, many, both, length, error)


# -- functions of the wrong shape: what is refused is the decorator --------------------------------


@hw.task(batch=Batch(10))  # expect: error
async def one(document: Document) -> list[str]:
    return [str(document.id)]


@hw.task(batch=Batch(10))  # expect: error
async def two(documents: list[Document], others: list[Document]) -> None: ...


@hw.task(batch=Batch(10))  # expect: error
async def one_context(ctx: Context, documents: list[Document]) -> None: ...


@hw.task(batch=Batch(10))  # expect: error
async def nothing() -> None: ...


@hw.task(batch=Batch(10))  # expect: error
async def one_answer(documents: list[Document]) -> int:
    return len(documents)


@hw.task(batch=Batch(10))  # expect: error
def mapping(documents: list[Document]) -> dict[int, str]:
    return {document.id: "" for document in documents}


@hw.task(batch=Batch(10))  # expect: error
async def either(documents: list[Document]) -> list[str] | None:
    return None


def options() -> None:
    hw.task(batch=10)  # expect: error
    hw.task(batch="10")  # expect: error
    hw.task(batch=Batch(10), queue=1)  # expect: error
    hw.task(batch=Batch(10), speed=3)  # expect: error
    hw.flow("a", batch=Batch(10))  # expect: error
    hw.flow("b").step(batch=Batch(10))  # expect: error
    Batch()  # expect: error
    Batch("10")  # expect: error
    Batch(10, "1s")  # expect: error
    Batch(10, wait=["1s"])  # expect: error
    Batch(10, every="1s")  # expect: error
