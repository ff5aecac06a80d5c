"""What an app runs around each attempt surrounds dependencies and handlers of every kind."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import pytest

from headway import Batch, Depends, Headway
from headway.app import session_of


class Noting:
    """Notes what happens, and in which thread."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def note(self, what: str) -> None:
        is_loop = threading.current_thread() is threading.main_thread()
        self.seen.append(f"{what} {'on the loop' if is_loop else 'in a thread'}")

    @asynccontextmanager
    async def on_loop(self) -> AsyncGenerator[None]:
        self.note("begin")
        try:
            yield
        finally:
            self.note("end")

    @contextmanager
    def in_thread(self) -> Generator[None]:
        self.note("begin")
        try:
            yield
        finally:
            self.note("end")


@pytest.fixture
def noting(hw: Headway) -> Noting:
    around = Noting()
    session_of(hw).around.append(around)
    return around


ON_LOOP = ["begin on the loop", "run on the loop", "end on the loop"]
IN_THREAD = ["begin in a thread", "run in a thread", "end in a thread"]
NESTED = ["begin on the loop", *IN_THREAD, "end on the loop"]


@pytest.mark.parametrize("kind", ["async", "thread", "batch", "failing"])
async def test_it_is_entered_around_each_kind_of_handler(
    hw: Headway, noting: Noting, kind: str
) -> None:
    if kind == "thread":

        @hw.task(name="t")
        def plain(n: int) -> None:
            noting.note("run")

    elif kind == "batch":

        @hw.task(name="t", batch=Batch(size=1, wait="1ms"))
        async def together(items: list[int]) -> None:
            noting.note("run")

    else:

        @hw.task(name="t", retry=1)
        async def waiting(n: int) -> None:
            noting.note("run")
            if kind == "failing":
                raise ValueError

    await hw.enqueue("t", **{"items" if kind == "batch" else "n": 1})
    await hw.run_until_idle()
    assert noting.seen == (NESTED if kind == "thread" else ON_LOOP)


async def test_it_is_entered_around_plain_dependencies(hw: Headway, noting: Noting) -> None:
    def given() -> Generator[int]:
        noting.note("run")
        yield 1
        noting.note("run")

    @hw.task
    async def job(n: int = Depends(given)) -> None:
        noting.note("run")

    await job.enqueue()
    await hw.run_until_idle()
    inner = [*IN_THREAD, "run on the loop", *IN_THREAD]
    assert noting.seen == ["begin on the loop", *inner, "end on the loop"]
