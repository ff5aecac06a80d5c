"""`Depends`: what a task is given that is not part of its call."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Annotated

import pytest

from headway import Batch, Context, Depends, Headway, Retry
from headway.errors import JobFailed

ONCE = Retry(max_attempts=1)
log: list[str] = []


@pytest.fixture(autouse=True)
def _clean_log() -> None:
    log.clear()


def plain() -> str:
    return f"plain in {threading.current_thread() is not threading.main_thread()}"


async def on_the_loop() -> str:
    await asyncio.sleep(0)
    return "loop"


def generator() -> Iterator[str]:
    log.append("open")
    try:
        yield "generator"
    except BaseException as error:
        log.append(type(error).__name__)
        raise
    finally:
        log.append("close")


async def async_generator() -> AsyncIterator[str]:
    log.append("aopen")
    try:
        yield "async generator"
    except BaseException as error:
        log.append(type(error).__name__)
        raise
    finally:
        await asyncio.sleep(0)
        log.append("aclose")


class Settings:
    def __init__(self, ctx: Context) -> None:
        self.task = ctx.task


async def test_providers_of_every_kind_are_called(hw: Headway) -> None:
    @hw.task(retry=ONCE)
    async def task(
        a: str = Depends(plain),
        b: str = Depends(on_the_loop),
        c: str = Depends(generator),
        d: str = Depends(async_generator),
        e: int = Depends(partial(int, "7")),
    ) -> list:
        log.append("handler")
        return [a, b, c, d, e]

    job = await task.enqueue()
    await hw.run_until_idle()
    expected = ["plain in True", "loop", "generator", "async generator", 7]
    assert await job.result() == expected
    assert log == ["open", "aopen", "handler", "aclose", "close"]


async def test_a_class_is_a_provider_too(hw: Headway) -> None:
    @hw.task(retry=ONCE)
    def task(settings: Settings = Depends(Settings)) -> str:
        return settings.task

    job = await task.enqueue()
    await hw.run_until_idle()
    assert await job.result() == "task"


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_generators_are_closed_after_a_failure_and_told_of_it(hw: Headway, kind: str) -> None:
    async def failing_async(c: str = Depends(generator), d: str = Depends(async_generator)) -> None:
        raise ValueError(c + d)

    def failing_plain(c: str = Depends(generator), d: str = Depends(async_generator)) -> None:
        raise ValueError(c + d)

    task = hw.task(retry=ONCE)(failing_async if kind == "async" else failing_plain)
    job = await task.enqueue()
    await hw.run_until_idle()
    assert (await job.status()).error["message"] == "generatorasync generator"
    assert log == ["open", "aopen", "ValueError", "aclose", "ValueError", "close"]


async def test_generators_are_closed_after_a_timeout_and_before_the_verdict(hw: Headway) -> None:
    @hw.task(retry=ONCE, timeout="2s")  # both must have opened by then, one of them in a thread
    async def slow(c: str = Depends(generator), d: str = Depends(async_generator)) -> None:
        await asyncio.sleep(3600)

    job = await slow.enqueue()
    await hw.run_until_idle()
    assert (await job.status()).error["type"] == "TimedOut"
    assert log == ["open", "aopen", "CancelledError", "aclose", "CancelledError", "close"]


async def test_a_generator_that_fails_to_close_fails_the_attempt(hw: Headway) -> None:
    def leaky() -> Iterator[int]:
        yield 1
        raise OSError("could not close")

    @hw.task(retry=ONCE)
    async def task(a: int = Depends(leaky)) -> int:
        return a

    job = await task.enqueue()
    await hw.run_until_idle()
    assert (await job.status()).error["message"] == "could not close"


async def test_providers_may_depend_on_providers_and_on_the_context(hw: Headway) -> None:
    made: list[str] = []

    def connection(ctx: Context) -> str:
        made.append("connection")
        return f"connection of attempt {ctx.attempt}"

    def users(conn: str = Depends(connection)) -> str:
        return f"users on {conn}"

    async def orders(c: str = Depends(connection), page: int = 3) -> str:
        return f"orders on {c}, page {page}"

    @hw.task(retry=ONCE)
    async def task(u: str = Depends(users), o: str = Depends(orders)) -> list[str]:
        return [u, o]

    job = await task.enqueue()
    await hw.run_until_idle()
    assert await job.result() == [
        "users on connection of attempt 1",
        "orders on connection of attempt 1, page 3",
    ]
    assert made == ["connection"], "made once for a job, however many ask for it"


async def test_each_job_gets_its_own(hw: Headway) -> None:
    made: list[object] = []

    def thing() -> list[int]:
        made.append(thing)
        return []

    @hw.task(retry=ONCE)
    async def task(n: int, bag: list = Depends(thing)) -> list[int]:
        bag.append(n)
        await asyncio.sleep(0)
        return bag

    jobs = await task.enqueue_many({"n": n} for n in range(10))
    await hw.run_until_idle()
    assert [await job.result() for job in jobs] == [[n] for n in range(10)]
    assert len(made) == 10


async def test_what_belongs_to_the_worker_is_made_once_and_closed_at_its_stop(
    hw: Headway, start
) -> None:
    asking, all_ask = list[int](), asyncio.Event()

    async def ask() -> None:
        asking.append(1)
        if len(asking) == 20:
            all_ask.set()

    def address() -> str:
        log.append("address")
        return "smtp.example.com"

    async def pool(where: str = Depends(address)) -> AsyncIterator[str]:
        log.append("pool opens")
        await all_ask.wait()  # the others ask for it meanwhile
        yield f"pool of {where}"
        log.append("pool closes")

    @hw.task(retry=ONCE)
    async def task(
        n: int, asked: None = Depends(ask), p: str = Depends(pool, scope="worker")
    ) -> str:
        return p

    running = start()
    jobs = await task.enqueue_many({"n": n} for n in range(20))
    results = {await job.result(timeout="60s") for job in jobs}
    assert results == {"pool of smtp.example.com"}
    assert log == ["address", "pool opens"]
    await running.stop()
    assert log == ["address", "pool opens", "pool closes"]


async def test_what_belongs_to_the_worker_and_fails_is_made_again_for_the_next(hw: Headway) -> None:
    tries: list[int] = []

    async def flaky() -> str:
        tries.append(1)
        await asyncio.sleep(0)
        if len(tries) == 1:
            raise ConnectionError("not yet")
        return "connected"

    @hw.task(retry=Retry(5, backoff="constant", base=0, jitter=0))
    async def task(conn: str = Depends(flaky, scope="worker")) -> str:
        return conn

    jobs = await task.enqueue_many([{}] * 5)
    await hw.run_until_idle()
    assert {await job.result() for job in jobs} == {"connected"}
    assert len(tries) == 2


@pytest.mark.parametrize("error", [ValueError, StopIteration, GeneratorExit, SystemExit])
@pytest.mark.parametrize("kind", ["plain", "async", "generator"])
async def test_a_provider_that_raises_spends_an_attempt_and_it_is_tried_again(
    hw: Headway, kind: str, error
) -> None:
    tries: list[int] = []

    def fail() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise error("no luck")

    def plain_() -> str:
        fail()
        return "made"

    async def async_() -> str:
        fail()
        return "made"

    def generator_() -> Iterator[str]:
        fail()
        yield "made"

    provider = {"plain": plain_, "async": async_, "generator": generator_}[kind]

    @hw.task(retry=Retry(3, backoff="constant", base=0, jitter=0, on=(BaseException,)))
    async def task(value: str = Depends(provider)) -> str:
        return value

    job = await task.enqueue()
    await hw.run_until_idle()
    assert await job.result() == "made"
    assert (await job.status()).attempt == 2
    assert len(await job.attempts()) == 1


async def test_tests_put_something_else_in_a_provider_s_place(hw: Headway) -> None:
    def smtp() -> str:
        raise AssertionError("a real mail server")

    def nested(s: str = Depends(smtp)) -> str:
        return f"mailer on {s}"

    @hw.task(retry=ONCE)
    async def task(
        a: str = Depends(smtp), b: str = Depends(nested), c: str = Depends(smtp, scope="worker")
    ) -> list[str]:
        return [a, b, c]

    hw.dependency_overrides[smtp] = lambda: "a fake"
    job = await task.enqueue()
    await hw.run_until_idle()
    assert await job.result() == ["a fake", "mailer on a fake", "a fake"]


async def test_a_provider_that_asks_for_what_it_cannot_have_fails_with_its_name(
    hw: Headway,
) -> None:
    def needy(who: str) -> str:
        return who

    @hw.task(retry=ONCE)
    async def task(value: str = Depends(needy)) -> str:
        return value

    job = await task.enqueue()
    await hw.run_until_idle()
    with pytest.raises(JobFailed, match=r"needy.* missing 1 required positional argument: 'who'"):
        await job.result()


Greeting = Annotated[str, Depends(lambda: "hello")]


def shout(greeting: Greeting, ctx: Context) -> Iterator[str]:
    yield f"{greeting.upper()} {ctx.attempt}"
    log.append("close")


async def shout_later(said: Annotated[str, Depends(shout)]) -> str:
    return f"{said}, later"


async def test_annotated_dependencies_are_injected_everywhere(hw: Headway) -> None:
    @hw.task(retry=ONCE)
    async def awaited(
        said: Annotated[str, Depends(shout_later)],
        name: str,
        ctx: Context,
        house: Annotated[list[str], Depends(list, scope="worker")],
    ) -> str:
        return f"{said} {name} {ctx.task} {house}"

    @hw.task(retry=ONCE)
    def plain(name: str, ctx: Context, *, said: Annotated[str, Depends(shout)]) -> str:
        return f"{said} {name} {ctx.task}"

    @hw.task(retry=ONCE, batch=Batch(2, wait=0))
    async def together(names: list[str], greeting: Greeting, contexts: list[Context]) -> list[str]:
        return [f"{greeting} {n} {c.attempt}" for n, c in zip(names, contexts, strict=True)]

    flow = hw.flow("greet", retry=ONCE)

    @flow.step
    def begin(greeting: Greeting, name: str, ctx: Context) -> object:
        return end.next(f"{greeting} {name} {ctx.step}")

    @flow.step
    async def end(text: str, ctx: Context, greeting: Greeting) -> str:
        return f"{text}, {greeting} {ctx.step}"

    jobs = [
        await awaited.enqueue("Ada"),
        await plain.enqueue(name="Ada"),
        await together.enqueue("Ada"),
        await flow.enqueue("Ada"),
    ]
    await hw.run_until_idle()
    assert [await job.result() for job in jobs] == [
        "HELLO 1, later Ada awaited []",
        "HELLO 1 Ada plain",
        "hello Ada 1",
        "hello Ada begin, hello end",
    ]
    assert log == ["close", "close"]
    ctx = Context.fake(task="test")
    assert plain("Bob", ctx) == "HELLO 1 Bob test"
    assert await awaited(name="Bob", ctx=ctx, house=["here"]) == "HELLO 1, later Bob test ['here']"
    assert await awaited("said", "Bob", ctx) == "said Bob test []"
