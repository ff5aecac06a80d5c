"""`Batch`: a task whose handler takes several jobs in one call, and the types of one of them. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from headway.core.context import Context
from headway.core.depends import Dependency
from headway.core.duration import Duration, seconds
from headway.core.signature import annotation, takes
from headway.errors import ConfigError

_LISTS = (list, Sequence, Collection, Iterable)


@dataclass(frozen=True, slots=True)
class Batch:
    """Hands a task's jobs to its handler together: up to `size` in one call.

    The handler takes a list and is called when `size` jobs are there, or `wait` after the first of
    them came. With `wait=0` it is called with what is there.

    >>> Batch(size=100, wait="1s").wait_seconds
    1.0
    """

    size: int
    wait: Duration = "1s"

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"the size {self.size!r} of a batch must be a whole number from 1 on")
        seconds(self.wait, name="the wait of a batch")

    @property
    def wait_seconds(self) -> float:
        return seconds(self.wait)

    def check_slots(self, handler: str, slots: int, what: str) -> None:
        """Refuses a batch that could never be full, because fewer jobs may run at once."""
        if self.size > slots:
            raise ConfigError(
                f"{handler} takes {self.size} jobs in one call, and each takes a slot, but {what} "
                f"{slots}; give it more, or the batch a smaller size"
            )


def one_item(
    function: Callable[..., Any], handler: str, kept: Sequence[inspect.Parameter]
) -> inspect.Parameter:
    """The parameter of a handler of batches, as the caller of one job sees it; `kept` are those that
    are not injected."""
    kind = item_type(annotation(function, kept[0].name)) if len(kept) == 1 else None
    if kind is None or kept[0].default is not inspect.Parameter.empty:
        raise ConfigError(
            f"{handler} takes batches: its function must take one list, such as `items: list[Item]`, "
            f"and may take a `list[Context]` before it; it takes {inspect.signature(function)}"
        )
    return kept[0].replace(annotation=kind)


def check_providers(handler: str, dependencies: Mapping[str, Dependency]) -> None:
    """Refuses what is made for one job: the handler is called for several."""
    for name, dependency in dependencies.items():
        if takes(dependency.provider, Context):
            raise ConfigError(
                f"{name} of {handler} depends on a Context, but a batch has one for each of its jobs; "
                "take a list[Context] in the handler instead"
            )


def item_type(kind: Any) -> Any:
    """The type of the items of a list; none if it is no list."""
    if kind is Any or kind in _LISTS:
        return Any
    if get_origin(kind) in _LISTS:
        return get_args(kind)[0]
    return None


def answer_type(kind: Any) -> Any:
    """The type of one job's result, from what a handler says that it returns: without the exceptions
    that it may answer with."""
    either: Any = None
    for answer in _alternatives(kind):
        for item in _alternatives(_answered(answer)):
            if not _is_error(item):
                either = item if either is None else Union[either, item]  # noqa: UP007 - of values
    return Any if either is None else either


def _answered(kind: Any) -> Any:
    if kind in (None, NoneType):
        return NoneType
    if get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
        return get_args(kind)[0]
    return item_type(kind) or Any


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)
