"""`Depends`: what a task needs that is not part of its call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

T = TypeVar("T")
Scope = Literal["job", "worker"]


@dataclass(frozen=True, slots=True)
class Dependency:
    """A parameter's default that says: inject what this function returns or yields."""

    provider: Callable[..., Any]
    scope: Scope


@overload
def Depends(
    provider: Callable[..., AsyncGenerator[T, None] | AsyncIterator[T]], *, scope: Scope = "job"
) -> T: ...
@overload
def Depends(
    provider: Callable[..., Generator[T, None, None] | Iterator[T]], *, scope: Scope = "job"
) -> T: ...
@overload
def Depends(provider: Callable[..., Awaitable[T]], *, scope: Scope = "job") -> T: ...
@overload
def Depends(provider: Callable[..., T], *, scope: Scope = "job") -> T: ...
def Depends(provider: Callable[..., Any], *, scope: Scope = "job") -> Any:
    """Inject what `provider` returns or yields; not part of the task's call.

    A generator is closed after the job, or when the worker stops with `scope="worker"`, which also
    means that the value is made once per worker. Providers may have `Depends` parameters themselves,
    and one annotated `Context` if their scope is the job.

    >>> def get_greeting() -> str:
    ...     return "hello"
    >>> async def greet(name: str, greeting: str = Depends(get_greeting)) -> str:
    ...     return f"{greeting} {name}"
    """
    return Dependency(provider, scope)
