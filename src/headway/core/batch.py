"""`Batch`: a task whose handler takes several jobs in one call, and the types of one job. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from headway.core.duration import Duration, seconds
from headway.core.signature import annotation, item_type
from headway.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Batch:
    """Pass up to `size` jobs of a task to its handler in one call.

    The handler takes a list. The worker calls it when `size` jobs have arrived, or `wait` after the
    first of them. With `wait=0` the worker does not wait for more jobs.

    >>> Batch(size=100, wait="1s").wait_seconds
    1.0
    """

    size: int
    _: KW_ONLY
    wait: Duration = "1s"

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"batch size {self.size!r} must be a whole number, 1 or more")
        seconds(self.wait, name="batch wait")

    @property
    def wait_seconds(self) -> float:
        return seconds(self.wait)

    def check_slots(self, handler: str, slots: int, what: str) -> None:
        """Raise ConfigError if the batch can never fill up because fewer jobs may run at once."""
        if self.size > slots:
            raise ConfigError(
                f"{handler} takes batches of {self.size} jobs, and each job needs a slot, but {what} "
                f"{slots}; add slots or make the batch smaller"
            )


def one_item(
    function: Callable[..., Any], handler: str, kept: Sequence[inspect.Parameter]
) -> inspect.Parameter:
    """Return the parameter of a batch handler as the caller of one job sees it.

    `kept` are the parameters that are not injected.
    """
    kind = item_type(annotation(function, kept[0].name)) if len(kept) == 1 else None
    if kind is None or kept[0].default is not inspect.Parameter.empty:
        raise ConfigError(
            f"{handler} takes batches, but its parameters are {inspect.signature(function)}; take one "
            "list, such as `items: list[Item]`, and a `list[Context]` if needed"
        )
    return kept[0].replace(annotation=kind)


def answer_type(kind: Any) -> Any:
    """Return the type of one job's result, from the handler's return annotation.

    Exceptions are left out: the handler may return one in place of a result.
    """
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
