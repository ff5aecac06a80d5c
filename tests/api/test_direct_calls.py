"""B14, B17: tasks called directly, and sync calls where they hurt."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from headway import Context, Depends, Headway


@pytest.fixture
def app() -> Headway:
    """Never opened."""
    return Headway("postgresql://nowhere/x")


_closed: list[str] = []


def get_ten() -> int:
    return 10


def get_eleven(ten: int = Depends(get_ten)) -> Iterator[int]:
    yield ten + 1
    _closed.append("eleven")


async def get_twelve(ctx: Context, eleven: int = Depends(get_eleven)) -> AsyncIterator[int]:
    yield eleven + ctx.attempt
    _closed.append("twelve")


async def test_b14_a_direct_call_makes_what_it_depends_on(app: Headway) -> None:
    @app.task
    def plain(n: int, ten: int = Depends(get_ten), eleven: int = Depends(get_eleven)) -> int:
        return n + ten + eleven

    @app.task
    async def awaited(ctx: Context, n: int, twelve: int = Depends(get_twelve)) -> int:
        return n + twelve

    _closed.clear()
    assert plain(1) == 22
    assert plain(1, ten=0) == 12
    assert plain(1, 0, eleven=0) == 1
    assert await awaited(Context.fake(), 1) == 13
    assert await awaited(Context.fake(attempt=3), n=1) == 15
    assert _closed == ["eleven", "eleven", "twelve", "eleven", "twelve", "eleven"]
    app.dependency_overrides[get_ten] = lambda: 100
    assert plain(1) == 202


def test_b14_a_plain_function_says_which_dependency_must_be_awaited(app: Headway) -> None:
    @app.task
    def plain(twelve: int = Depends(get_twelve)) -> int:
        return twelve

    with pytest.raises(TypeError, match=r"plain cannot .* without twelve: get_twelve must be"):
        plain()
    assert plain(twelve=5) == 5


async def test_b14_a_context_can_be_made_for_a_test(app: Headway) -> None:
    said: list[Any] = []

    @app.task
    async def child(n: int) -> None: ...

    @app.task
    async def report(ctx: Context) -> str:
        await ctx.progress(50, "half")
        await ctx.enqueue(child, 1)
        assert ctx.conn == "a connection"
        return f"{ctx.task} {ctx.headers['tenant']} {ctx.cancelled}"

    ctx = Context.fake(
        task="report",
        headers={"tenant": "acme"},
        conn="a connection",
        cancelled=True,
        on_progress=said.append,
    )
    assert await report(ctx) == "report acme True"
    assert said == [{"percent": 50.0, "message": "half"}]
    assert [made.task for made in ctx.children] == ["child"]
    with pytest.raises(TypeError, match="ctx"):
        await report()


async def test_b17_a_sync_call_on_a_running_loop_warns_once_per_place(hw: Headway) -> None:
    @hw.task
    async def work(n: int) -> None: ...

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for n in range(3):
            job = work.enqueue_sync(n)
        job.status_sync()
    said = [(str(one.message), one.category, one.filename) for one in caught]
    assert [kind for _, kind, _ in said] == [RuntimeWarning, RuntimeWarning]
    assert {place for *_, place in said} == {__file__}
    assert "await enqueue(...) instead" in said[0][0]
    assert "await status(...) instead" in said[1][0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await asyncio.to_thread(work.enqueue_sync, 4)
        await work.enqueue(5)
