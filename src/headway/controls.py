"""`hw.controls`: pauses and limits of queues, tasks and keys, fleet-wide and while everything runs."""

from __future__ import annotations

import builtins
from datetime import datetime

from headway.core.clock import wall
from headway.core.duration import Duration, optional_seconds
from headway.core.keys import check_full_name
from headway.core.limits import Limit
from headway.core.moments import check_moment
from headway.core.names import check_name
from headway.errors import ConfigError
from headway.session import Session
from headway.store import controls
from headway.store.controls import ControlRow, Kind, mark_limited
from headway.store.statement import Statement

Until = datetime | Duration | None
"""A moment, so long from now, or none: until someone resumes it."""


class Controls:
    """What people say of a queue, a task (`name`, or `flow/step`) or a concurrency key.

    >>> await hw.controls.pause(task="sync_tenant", reason="API down", until="1h")  # doctest: +SKIP
    >>> await hw.controls.limit(keys_of="sync_tenant", concurrency=2, rate="10/s")  # doctest: +SKIP
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def list(self) -> builtins.list[ControlRow]:
        """Every pause and limit there is."""
        found = await (await self._session.ready_client()).run(
            controls.read(self._session.clock.now())
        )
        return [row for row in found if row.says_something]

    def list_sync(self) -> builtins.list[ControlRow]:
        """As `list`."""
        found = self._session.client.run_sync(controls.read(self._session.clock.now()))
        return [row for row in found if row.says_something]

    async def pause(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        key: str | None = None,
        reason: str | None = None,
        by: str | None = None,
        until: Until = None,
    ) -> None:
        """Stops claims of it; running jobs go on. A flow's name pauses all its steps."""
        await (await self._session.ready_client()).run(
            self._pause(queue, task, key, reason, by, until)
        )

    def pause_sync(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        key: str | None = None,
        reason: str | None = None,
        by: str | None = None,
        until: Until = None,
    ) -> None:
        """As `pause`."""
        self._session.client.run_sync(self._pause(queue, task, key, reason, by, until))

    async def resume(
        self, *, queue: str | None = None, task: str | None = None, key: str | None = None
    ) -> bool:
        """Opens it; false if it was not paused."""
        return await (await self._session.ready_client()).run(self._resume(queue, task, key))

    def resume_sync(
        self, *, queue: str | None = None, task: str | None = None, key: str | None = None
    ) -> bool:
        """As `resume`."""
        return self._session.client.run_sync(self._resume(queue, task, key))

    async def limit(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        keys_of: str | None = None,
        concurrency: int | None = None,
        rate: str | None = None,
        burst: int | None = None,
        by: str | None = None,
    ) -> None:
        """Sets how many run at once and how many start in a time, from the next claim on, in place of
        what was set or declared; with neither it lifts the limit. `keys_of` is a task with
        `Limit(key=...)`."""
        client = await self._session.ready_client()
        limit = self._limit(queue, task, keys_of, _limit(concurrency, rate, burst), by)
        await client.run_all((limit, mark_limited()))

    def limit_sync(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        keys_of: str | None = None,
        concurrency: int | None = None,
        rate: str | None = None,
        burst: int | None = None,
        by: str | None = None,
    ) -> None:
        """As `limit`."""
        limit = self._limit(queue, task, keys_of, _limit(concurrency, rate, burst), by)
        self._session.client.run_all_sync((limit, mark_limited()))

    async def reset(
        self, *, queue: str | None = None, task: str | None = None, keys_of: str | None = None
    ) -> bool:
        """Back to the limits that the code declares; false if nobody had set others."""
        client = await self._session.ready_client()
        reset, _ = await client.run_all((self._reset(queue, task, keys_of), mark_limited()))
        return bool(reset)

    def reset_sync(
        self, *, queue: str | None = None, task: str | None = None, keys_of: str | None = None
    ) -> bool:
        """As `reset`."""
        statements = self._reset(queue, task, keys_of), mark_limited()
        reset, _ = self._session.client.run_all_sync(statements)
        return bool(reset)

    def _pause(
        self,
        queue: str | None,
        task: str | None,
        key: str | None,
        reason: str | None,
        by: str | None,
        until: Until,
    ) -> Statement[datetime]:
        kind, name = _one(queue=queue, task=task, key=key)
        now = self._session.clock.now()
        moment = _moment(until, now or wall())
        target = self._session.target
        return controls.pause(target, kind, name, by=by, reason=reason, until=moment, now=now)

    def _resume(self, queue: str | None, task: str | None, key: str | None) -> Statement[bool]:
        kind, name = _one(queue=queue, task=task, key=key)
        return controls.resume(self._session.target, kind, name, self._session.clock.now())

    def _limit(
        self,
        queue: str | None,
        task: str | None,
        keys_of: str | None,
        limit: Limit | None,
        by: str | None,
    ) -> Statement[bool]:
        kind, name = _one(queue=queue, task=task, keys=keys_of)
        if kind == "keys" and limit is not None and limit.concurrency == 0:
            raise ConfigError("concurrency 0 would let no key in; pause the task instead")
        now = self._session.clock.now()
        return controls.set_limit(self._session.target, kind, name, limit, by, now)

    def _reset(self, queue: str | None, task: str | None, keys_of: str | None) -> Statement[bool]:
        kind, name = _one(queue=queue, task=task, keys=keys_of)
        return controls.reset_limit(self._session.target, kind, name)


def _one(**given: str | None) -> tuple[Kind, str]:
    """What something is said of: exactly one of them."""
    named = [(kind, name) for kind, name in given.items() if name is not None]
    if len(named) != 1:
        words = ", ".join("keys_of" if kind == "keys" else kind for kind in given)
        raise ConfigError(f"give exactly one of {words}")
    ((kind, name),) = named
    if kind == "key":
        check_full_name(name)
    else:
        check_name(name, "queue" if kind == "queue" else "task name")
    return kind, name  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def _limit(concurrency: int | None, rate: str | None, burst: int | None) -> Limit | None:
    if concurrency is None and rate is None and burst is None:
        return None
    return Limit(concurrency=concurrency, rate=rate, burst=burst)


def _moment(until: Until, now: datetime) -> datetime | float | None:
    if isinstance(until, datetime):
        if check_moment(until, "until") <= now:
            raise ConfigError(f"until={until} has passed; give a moment to come, or leave it out")
        return until
    return optional_seconds(until, name="until")
