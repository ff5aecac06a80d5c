"""The reports of handlers: which jobs ran, in which order, and how many of a key at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, LiteralString

import psycopg

_TELL = "insert into telling.told (key, n, what) values (%s, %s, %s)"


class Told:
    """A table that handlers write to on connections of their own, so that it shows what really ran."""

    def __init__(self, db: psycopg.Connection[Any] | None, dsn: str) -> None:
        """`db` is for readers."""
        self._db = db
        self._dsn = dsn

    @asynccontextmanager
    async def running(self, key: str, n: int) -> AsyncIterator[None]:
        """Says that it begins, and that it ends however it does."""
        async with await psycopg.AsyncConnection.connect(self._dsn, autocommit=True) as side:
            await side.execute(_TELL, (key, n, "began"))
            try:
                yield
            finally:
                await side.execute(_TELL, (key, n, "ended"))

    async def has_begun(self, key: str, n: int) -> bool:
        """Whether this job has begun before."""
        query = "select 1 from telling.told where key = %s and n = %s"
        async with await psycopg.AsyncConnection.connect(self._dsn) as side:
            found = await side.execute(query, (key, n))
            return await found.fetchone() is not None

    def began(self, key: str | None = None) -> list[int]:
        """Return the jobs that began, in their order, each as often as it did."""
        query = """select n from telling.told where what = 'began' and key = coalesce(%s, key)
                   order by place"""
        return [n for (n,) in self._rows(query, [key])]

    def most_at_once(self) -> dict[str, int]:
        """Of each key, how many ran at once."""
        running, most = Counter[str](), Counter[str]()
        for key, what in self._rows("select key, what from telling.told order by place"):
            running[key] += 1 if what == "began" else -1
            most[key] = max(most[key], running[key])
        assert not any(running.values()), "somebody never ended"
        return dict(most)

    def _rows(self, query: LiteralString, values: list[Any] | None = None) -> list[Any]:
        assert self._db is not None, "this one only tells"
        return self._db.execute(query, values).fetchall()
