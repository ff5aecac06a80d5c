"""Makes the dependencies of handlers, and closes them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

from headway.core.context import Context
from headway.core.current import as_current
from headway.core.depends import Dependency
from headway.core.injection import Injected, injected, name_of
from headway.engine.running.threads import carried

Overrides = Mapping[Callable[..., Any], Callable[..., Any]]


class Injector:
    """Makes dependencies: those with scope "worker" once, the others for each job."""

    def __init__(self, overrides: Overrides) -> None:
        self._overrides = overrides
        self._stack = AsyncExitStack()
        self._made: dict[Callable[..., Any], asyncio.Future[Any]] = {}
        self._read: dict[Callable[..., Any], Injected] = {}

    async def close(self) -> None:
        await self._stack.aclose()

    async def resolve(
        self,
        wanted: Mapping[str, Dependency],
        stack: AsyncExitStack,
        context: Callable[[], Context],
    ) -> dict[str, Any]:
        """Return the value of each dependency in `wanted`. `stack` closes those of the job."""
        made: dict[Callable[..., Any], Any] = {}
        return {
            name: await self._value(dependency, stack, context, made)
            for name, dependency in wanted.items()
        }

    async def _value(
        self,
        dependency: Dependency,
        stack: AsyncExitStack,
        context: Callable[[], Context],
        made: dict[Callable[..., Any], Any],
    ) -> Any:
        provider = self._overrides.get(dependency.provider, dependency.provider)
        if dependency.scope == "worker":
            return await self._once_per_worker(provider)
        if provider not in made:
            wanted = self._injected(provider)
            arguments: dict[str, Any] = {
                name: await self._value(inner, stack, context, made)
                for name, inner in wanted.dependencies.items()
            }
            if wanted.context is not None:
                arguments[wanted.context] = context()
            made[provider] = await _enter(provider, arguments, stack)
        return made[provider]

    async def _once_per_worker(self, provider: Callable[..., Any]) -> Any:
        if (future := self._made.get(provider)) is not None:
            return await asyncio.shield(future)
        future = self._made[provider] = asyncio.get_running_loop().create_future()
        try:
            with as_current(None):  # it outlives the job that needs it first
                arguments = {
                    name: await self._once_per_worker(
                        self._overrides.get(inner.provider, inner.provider)
                    )
                    for name, inner in self._injected(provider).dependencies.items()
                }
                value = await _enter(provider, arguments, self._stack)
        except BaseException as error:
            # The next job tries again. The jobs that wait now get this error.
            del self._made[provider]
            future.set_exception(
                error
                if isinstance(error, Exception)
                else RuntimeError("was stopped while it was made")
            )
            future.exception()
            raise
        future.set_result(value)
        return value

    def _injected(self, provider: Callable[..., Any]) -> Injected:
        """Read a provider once: reading annotations takes longer than most jobs."""
        if (found := self._read.get(provider)) is None:
            found = self._read[provider] = injected(provider, name_of(provider))
        return found


async def _enter(
    provider: Callable[..., Any], arguments: dict[str, Any], stack: AsyncExitStack
) -> Any:
    if inspect.isasyncgenfunction(provider):
        return await stack.enter_async_context(asynccontextmanager(provider)(**arguments))
    if inspect.iscoroutinefunction(provider):
        return await provider(**arguments)
    # Plain code may block the loop, so it runs in a thread.
    if inspect.isgeneratorfunction(provider):
        manager = contextmanager(provider)(**arguments)
        value = await asyncio.to_thread(carried, manager.__enter__)
        stack.push_async_exit(_leaving(manager))
        return value
    return await asyncio.to_thread(carried, provider, **arguments)


def _leaving(manager: Any) -> Any:
    async def leave(*error: Any) -> Any:
        return await asyncio.to_thread(carried, manager.__exit__, *error)

    return leave
