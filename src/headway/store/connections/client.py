"""Runs statements for user code. There is a pool for async callers and one for threads.

- The first use opens the pool and checks the schema.
- Each answer has a time limit. After it the connection is cut, and the call is repeated on another one.
- After a passing fault the call is repeated until its deadline (`GIVE_UP_AFTER`). Each statement defines
  what a repetition must add to be safe.
- On a caller's own connection nothing is cut, repeated or committed (caller_transactions.py).
- After the commit workers are notified of new jobs (bell.py).
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

from headway.core.clock import monotonic
from headway.errors import StandbyRefused
from headway.store import blockers, caller, migrate, rights
from headway.store.blockers import Blocker
from headway.store.caller.psycopg import AsyncPsycopg, Psycopg
from headway.store.connections.answer_limit import AnswerLimit, AsyncAnswerLimit, SyncAnswerLimit
from headway.store.connections.bell import Bell
from headway.store.connections.call_budget import ANSWER_WITHIN, CallAnswers, CallBudget, OnRepeat
from headway.store.connections.caller_transactions import CallerTransactions, Making
from headway.store.connections.connect import AsyncConn, SyncConn, Target, times_cancelled
from headway.store.connections.loop_warning import warn_if_on_loop
from headway.store.connections.per_loop import PerLoop
from headway.store.connections.pool import LOCK_WITHIN, AsyncPool
from headway.store.connections.thread_pool import SyncPool
from headway.store.faults import DRIVER_ERRORS
from headway.store.scripts import Script, reply_to, statement_of
from headway.store.statement import Statement, client_text

R = TypeVar("R")


class Client:
    """Statements in, answers out: sync and async, on our connections or on the caller's."""

    def __init__(self, target: Target, *, pool_size: int = 10) -> None:
        self.target = target
        self.timeout: float | None = None
        """Seconds after which a call fails. None stands for `GIVE_UP_AFTER`."""
        self.answer_within = ANSWER_WITHIN
        """Seconds for one answer."""
        self._pool_size = pool_size
        self._pools: PerLoop[AsyncPool] = PerLoop(AsyncPool.close, AsyncPool.end)
        self._sync_pool: SyncPool | None = None
        self._callers = CallerTransactions(self, target.schema)
        self._sync_opening = threading.Lock()
        self._parent_pools: list[SyncPool] = []
        self._bell = Bell(target)
        _clients.add(self)

    @property
    def _single_within(self) -> float:
        return self.answer_within if self.timeout is None else min(self.answer_within, self.timeout)

    def _notify(self, statements: Sequence[Statement[Any]]) -> None:
        """Notify workers of what has just committed."""
        for statement in statements:
            if statement.hints and self.target.notify:
                self._bell.notify(statement.hints)

    @property
    def _lock_within(self) -> float:
        return LOCK_WITHIN if self.timeout is None else min(LOCK_WITHIN, self.timeout * 0.75)

    async def open(self) -> AsyncPool:
        """Return the pool of this event loop, with its schema checked."""
        pool = await self._pool()
        if not pool.verified:
            await self.run_all([])
        return pool

    async def close(self) -> None:
        """Close the pool of this event loop, and the bell with the last pool of all."""
        await self._pools.close()
        if self._bell.is_open:
            last = self._sync_pool is None and not self._pools.loops
            await asyncio.to_thread(self._bell.close if last else self._bell.flush)

    async def run(self, statement: Statement[R]) -> R:
        """Return the answer of one statement."""
        answer: R = (await self.run_all([statement]))[0]
        return answer

    async def play(self, script: Script[R], until: float | None = None) -> R:
        """Return the answer of a script. `until` is its deadline."""
        try:
            step = next(script)
            while True:
                answers = await self.run_all([statement_of(step)], until=until)
                step = script.send(reply_to(step, answers[0], answers.repeated))
        except StopIteration as finished:
            answer: R = finished.value
            return answer

    async def run_all(
        self,
        statements: Sequence[Statement[Any]],
        *,
        on_repeat: OnRepeat = (),
        until: float | None = None,
    ) -> CallAnswers:
        """Return the answers of several statements, run in one transaction.

        `on_repeat` is added when they are sent again after a fault that may have happened after the
        commit. Raise `DatabaseUnavailable` if there is no answer by `until`, or within `timeout`.
        """
        budget = CallBudget(statements, self.timeout, self.answer_within, until)
        return await self._try(await self._pool(), budget, on_repeat)

    async def run_one(self, statement: Statement[None], *, on_repeat: OnRepeat = ()) -> None:
        """Run one statement that returns no rows, like `run_all`, but leanly while nothing fails."""
        pool = self._pools.get()
        if pool is None or (pooled := await pool.take_sound()) is None:
            await self.run_all([statement], on_repeat=on_repeat)
            return
        began, cancelled = monotonic(), times_cancelled()
        try:
            with AsyncAnswerLimit(pooled.conn, self._single_within):
                await pooled.prepared.run(pooled.conn, statement, self.target.schema)
        except DRIVER_ERRORS as error:
            failed = error
        else:
            self._notify((statement,))
            if times_cancelled() > cancelled:
                raise asyncio.CancelledError
            return
        finally:
            pool.give(pooled)
        budget = CallBudget([statement], self.timeout, self.answer_within, None, began)
        budget.sending(())
        await asyncio.sleep(await self._pause(pool, pooled.conn, budget, failed))
        await self._try(pool, budget, on_repeat)

    async def _try(self, pool: AsyncPool, budget: CallBudget, on_repeat: OnRepeat) -> CallAnswers:
        """Send the statements of a call until they are answered, or until its time is up."""
        cancelled = times_cancelled()
        while True:
            own = None
            try:
                async with pool.connection(budget.until) as own:
                    with AsyncAnswerLimit(own, budget.seconds(None)) as limit:
                        if pool.silent:
                            await pool.end_silent(own)
                        if not pool.verified:
                            await migrate.verify(own, self.target.schema)
                            pool.verified = True
                        sending = budget.sending(on_repeat)
                        if pool.is_direct(own):
                            answers = await self._on(AsyncPsycopg(own), sending, budget, limit)
                        else:
                            async with pool.transaction(own):
                                answers = await self._on(AsyncPsycopg(own), sending, budget, limit)
                self._notify(budget.statements)
                if times_cancelled() > cancelled:
                    raise asyncio.CancelledError
                return budget.answers(answers)
            except DRIVER_ERRORS as error:
                pause = await self._pause(pool, own, budget, error)
            await asyncio.sleep(pause)

    async def _pause(
        self, pool: AsyncPool, own: AsyncConn | None, budget: CallBudget, error: Exception
    ) -> float:
        """Return the pause before the next try after a fault. Raise its error if it lasts."""
        login = rights.login_of(own)  # closed next
        pool.broke(own)
        held = await self._blockers(pool, budget.blockers(error))
        return budget.after(error, self.target.schema, login, held)

    async def run_in(self, conn: Any, make: Making) -> list[Any]:
        """Return the answers of statements in the caller's transaction. See `CallerTransactions.run`."""
        return await self._callers.run(conn, make)

    async def _blockers(
        self, pool: AsyncPool, question: Statement[list[Blocker]] | None
    ) -> list[Blocker]:
        """Return the sessions that blocked a statement, if they can be found."""
        with suppress(*DRIVER_ERRORS, StandbyRefused):
            if question is not None:
                async with pool.connection(monotonic() + blockers.ANSWER_WITHIN) as own:
                    with AsyncAnswerLimit(own, blockers.ANSWER_WITHIN):
                        return await self._one(AsyncPsycopg(own), question, None, None)
        return []

    async def _pool(self) -> AsyncPool:
        if (pool := self._pools.get()) is None:
            pool = await self._pools.put(AsyncPool(self.target, self._pool_size))
            pool.lock_within = self._lock_within
        return pool

    async def _on(
        self,
        conn: caller.AsyncCallerConnection,
        statements: Sequence[Statement[Any]],
        budget: CallBudget | None = None,
        limit: AnswerLimit | None = None,
    ) -> list[Any]:
        if len(statements) == 1:
            return [await self._one(conn, statements[0], budget, limit)]
        async with conn.together():
            return [await self._one(conn, statement, budget, limit) for statement in statements]

    async def _one(
        self,
        conn: caller.AsyncCallerConnection,
        statement: Statement[R],
        budget: CallBudget | None,
        limit: AnswerLimit | None,
    ) -> R:
        if budget is not None and limit is not None:
            limit.restart(budget.seconds(statement))
        sql = client_text(statement.name, self.target.schema)
        return statement.read(await conn.rows(sql, statement.params))

    # -- sync -------------------------------------------------------------------------------------

    def open_sync(self) -> SyncPool:
        """Return the pool for threads, with its schema checked."""
        pool = self._pool_sync()
        if not pool.verified:
            self.run_all_sync([])
        return pool

    def close_sync(self, *, loops: bool = False) -> None:
        """Close the pool for threads. With `loops` also those of all event loops, from any thread."""
        if loops:
            self._pools.drop_all()
        with self._sync_opening:
            pool, self._sync_pool = self._sync_pool, None
        if pool is not None:
            pool.end()
        self._bell.close()

    def leave_to_parent(self) -> None:
        """In a forked child, drop the parent's pool without touching its connections."""
        if self._sync_pool is not None:
            # Keep a reference: garbage collection would close the parent's connections.
            self._parent_pools.append(self._sync_pool)
        self._sync_pool = None
        self._sync_opening = threading.Lock()
        self._bell.reset()

    def run_sync(self, statement: Statement[R]) -> R:
        """Return the answer of one statement, like `run`."""
        answer: R = self.run_all_sync([statement])[0]
        return answer

    def play_sync(self, script: Script[R], until: float | None = None) -> R:
        """Return the answer of a script, like `play`."""
        try:
            step = next(script)
            while True:
                answers = self.run_all_sync([statement_of(step)], until=until)
                step = script.send(reply_to(step, answers[0], answers.repeated))
        except StopIteration as finished:
            answer: R = finished.value
            return answer

    def run_all_sync(
        self,
        statements: Sequence[Statement[Any]],
        *,
        on_repeat: OnRepeat = (),
        until: float | None = None,
    ) -> CallAnswers:
        """Return the answers of several statements, like `run_all`."""
        warn_if_on_loop()
        budget = CallBudget(statements, self.timeout, self.answer_within, until)
        return self._try_sync(self._pool_sync(), budget, on_repeat)

    def run_one_sync(self, statement: Statement[None], *, on_repeat: OnRepeat = ()) -> None:
        """Run one statement that returns no rows, like `run_one`."""
        pool = self._sync_pool
        if pool is None or (pooled := pool.take_sound()) is None:
            self.run_all_sync([statement], on_repeat=on_repeat)
            return
        began = monotonic()
        try:
            warn_if_on_loop()
            with SyncAnswerLimit(pooled.conn, self._single_within):
                pooled.prepared.run_sync(pooled.conn, statement, self.target.schema)
        except DRIVER_ERRORS as error:
            failed = error
        else:
            self._notify((statement,))
            return
        finally:
            pool.give(pooled)
        budget = CallBudget([statement], self.timeout, self.answer_within, None, began)
        budget.sending(())
        time.sleep(self._pause_sync(pool, pooled.conn, budget, failed))
        self._try_sync(pool, budget, on_repeat)

    def _try_sync(self, pool: SyncPool, budget: CallBudget, on_repeat: OnRepeat) -> CallAnswers:
        """Send the statements of a call, like `_try`."""
        while True:
            own = None
            try:
                with (
                    pool.connection(budget.until) as own,
                    SyncAnswerLimit(own, budget.seconds(None)) as limit,
                ):
                    if pool.silent:
                        pool.end_silent(own)
                    if not pool.verified:
                        migrate.verify_sync(own, self.target.schema)
                        pool.verified = True
                    sending = budget.sending(on_repeat)
                    if pool.is_direct(own):
                        answers = self._on_sync(Psycopg(own), sending, budget, limit)
                    else:
                        with pool.transaction(own):
                            answers = self._on_sync(Psycopg(own), sending, budget, limit)
                self._notify(budget.statements)
                return budget.answers(answers)
            except DRIVER_ERRORS as error:
                pause = self._pause_sync(pool, own, budget, error)
            time.sleep(pause)

    def _pause_sync(
        self, pool: SyncPool, own: SyncConn | None, budget: CallBudget, error: Exception
    ) -> float:
        """Return the pause before the next try, like `_pause`."""
        login = rights.login_of(own)  # closed next
        pool.broke(own)
        held = self._blockers_sync(pool, budget.blockers(error))
        return budget.after(error, self.target.schema, login, held)

    def run_in_sync(self, conn: Any, make: Making) -> list[Any]:
        """Return the answers of statements on the caller's connection, like `run_in`."""
        return self._callers.run_sync(conn, make)

    def _blockers_sync(
        self, pool: SyncPool, question: Statement[list[Blocker]] | None
    ) -> list[Blocker]:
        """Return the sessions that blocked a statement, like `_blockers`."""
        with suppress(*DRIVER_ERRORS, StandbyRefused):
            if question is not None:
                until = monotonic() + blockers.ANSWER_WITHIN
                with (
                    pool.connection(until) as own,
                    SyncAnswerLimit(own, blockers.ANSWER_WITHIN),
                ):
                    return self._one_sync(Psycopg(own), question, None, None)
        return []

    def _pool_sync(self) -> SyncPool:
        if (pool := self._sync_pool) is None:
            with self._sync_opening:
                if (pool := self._sync_pool) is None:
                    pool = SyncPool(self.target, self._pool_size)
                    pool.lock_within = self._lock_within
                    self._sync_pool = pool
        return pool

    def _on_sync(
        self,
        conn: caller.CallerConnection,
        statements: Sequence[Statement[Any]],
        budget: CallBudget | None = None,
        limit: AnswerLimit | None = None,
    ) -> list[Any]:
        if len(statements) == 1:
            return [self._one_sync(conn, statements[0], budget, limit)]
        with conn.together():
            return [self._one_sync(conn, statement, budget, limit) for statement in statements]

    def _one_sync(
        self,
        conn: caller.CallerConnection,
        statement: Statement[R],
        budget: CallBudget | None,
        limit: AnswerLimit | None,
    ) -> R:
        if budget is not None and limit is not None:
            limit.restart(budget.seconds(statement))
        sql = client_text(statement.name, self.target.schema)
        return statement.read(conn.rows(sql, statement.params))


_clients: WeakSet[Client] = WeakSet()


def _after_fork() -> None:
    for client in _clients:
        client.leave_to_parent()


os.register_at_fork(after_in_child=_after_fork)
