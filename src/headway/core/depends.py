"""`Depends`: values that a task needs and that are not part of its call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

from headway.errors import ConfigError

T = TypeVar("T")
Scope = Literal["job", "worker"]


@dataclass(frozen=True, slots=True)
class Dependency:
    """Says of a parameter: inject what this function returns or yields."""

    provider: Callable[..., Any]
    scope: Scope

    @property
    def is_complete(self) -> bool:
        """Whether it names a function. `Depends()` leaves that to the annotation."""
        return self.provider is not _unnamed


def _unnamed() -> None:
    """Stands for the function of `Depends()`."""


@overload
def Depends() -> Any: ...
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
def Depends(provider: Callable[..., Any] = _unnamed, *, scope: Scope = "job") -> Any:
    """Inject what `provider` returns or yields. The parameter is not part of the task's call.

    Write it in the annotation or as the default. `Depends()` as the default tells type checkers that the
    parameter of an `Annotated[...]` may be left out.

    A generator is closed after the job. With `scope="worker"` the value is made once per worker, and the
    generator is closed when the worker stops. Providers may have `Depends` parameters themselves, and
    one annotated `Context` if their scope is the job.

    >>> from typing import Annotated
    >>> def get_greeting() -> str:
    ...     return "hello"
    >>> async def greet(name: str, greeting: Annotated[str, Depends(get_greeting)]) -> str:
    ...     return f"{greeting} {name}"
    >>> async def leave(name: str, greeting: str = Depends(get_greeting)) -> str:
    ...     return f"{greeting} and goodbye, {name}"
    """
    if not callable(provider):
        raise ConfigError(
            f"Depends({provider!r}) is not about a function; write Depends(f), not f()"
        )
    return Dependency(provider, scope)
