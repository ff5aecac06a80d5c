"""The options of tasks, flows and steps, and the definitions made of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Protocol, TypedDict

from headway.core.batch import Batch
from headway.core.config import DEFAULT_QUEUE, STOP_GRACE, Retention
from headway.core.definition import Definition, ExecutorKind, Steps
from headway.core.duration import Duration
from headway.core.keys import By, Key, Unique, as_key, as_unique
from headway.core.limits import Limit, as_limit
from headway.core.names import check_name
from headway.core.retry import Retry, as_retry
from headway.core.schedule import Scheduled
from headway.errors import ConfigError


class Named(Protocol):
    """A task or a flow."""

    @property
    def name(self) -> str: ...


class StepOptions(TypedDict, total=False):
    """What `@flow.step(...)` takes. What is left out is the call's, else the flow's."""

    name: str | None
    """Another name than the function's."""
    queue: str
    priority: int
    retry: Retry | int | None
    """A number is that of attempts."""
    timeout: Duration | None
    delay: Duration | None
    """How long the step waits before it may run, unless `after` says otherwise."""
    executor: ExecutorKind | None
    """"async" for coroutine functions and "thread" for plain ones; "process" runs a plain one in a
    process that can be killed."""
    slots: int | None
    """How many may run at once in one worker."""
    stop_grace: Duration | None
    """How long a plain function with a `Context` that is to stop may take to see `ctx.cancelled`, before
    `Interrupted` is raised in it; "5s" if not given."""
    transaction: bool
    """Runs in a transaction, `ctx.conn`, that commits together with its success."""
    concurrency_key: By | Key | None
    """At most so many of the same key run at once, anywhere."""
    limit: Limit | None
    """How many run at once and how many start in a time, anywhere; by key, each key on its own."""


class _Endings(TypedDict, total=False):
    ttl: Duration | None
    """How long a job may wait before it expires."""
    unique: By | Unique | None
    """Makes no second job of the same key."""
    keep: Duration | Retention | None
    """How long a success is kept (none: deleted at once), or a `Retention` that says it of both."""
    dead_letter: str | None
    """A queue to which a failed job goes as a new one."""
    on_failure: Named | str | None
    """A task that is called with the failure."""
    schedule: Scheduled | None
    """When jobs are made of it by themselves: "0 8 * * *[Europe/Berlin]", a `Schedule`, or several."""


class TaskOptions(StepOptions, _Endings, total=False):
    """What `@hw.task(...)` takes."""


class BatchTaskOptions(TaskOptions):
    """What `@hw.task(batch=...)` takes."""

    batch: Batch
    """The handler takes a list: so many jobs in one call."""


class FlowOptions(_Endings, total=False):
    """What `hw.flow(name, ...)` takes: for every step that does not say otherwise, and for the job."""

    queue: str
    priority: int
    retry: Retry | int | None
    """A number is that of attempts."""
    timeout: Duration | None
    transaction: bool
    concurrency_key: By | Key | None


def check_options(kind: type, given: Mapping[str, Any], what: str) -> None:
    """Refuses an option that does not exist."""
    known = list(kind.__annotations__)
    for name in given:
        if name not in known:
            close = get_close_matches(name, known, 1)
            hint = (
                f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(sorted(known))}"
            )
            raise ConfigError(f"{what} has no option {name!r}; {hint}")


def define_task(
    function: Callable[..., Any], options: Mapping[str, Any], retention: Callable[[], Retention]
) -> Definition:
    """The definition of a task."""
    check_options(BatchTaskOptions, options, "a task")
    batch = options.get("batch")
    if batch is not None and not isinstance(batch, Batch):
        raise ConfigError(f"batch {batch!r} must be a Batch, such as Batch(size=100, wait='1s')")
    definition = Definition(
        name=options.get("name") or function.__name__,
        function=function,
        batch=batch,
        **_shared(function, options),
        **endings(options, retention),
    )
    definition.check_parameters()
    return definition


def define_step(
    steps: Steps, flow: Mapping[str, Any], function: Callable[..., Any], options: Mapping[str, Any],
    retention: Callable[[], Retention],
) -> Definition:  # fmt: skip
    """The definition of a step; `flow` are the options of its flow."""
    check_options(StepOptions, options, f"a step of {steps.flow}")
    kept = {name: value for name, value in flow.items() if name in StepOptions.__annotations__}
    definition = Definition(
        name=steps.flow,
        function=function,
        step=options.get("name") or function.__name__,
        flow=steps,
        own=frozenset(options) - {"name"},
        **_shared(function, {**kept, **options}),
        **endings(flow, retention),
    )
    definition.check_parameters()
    return definition


def endings(options: Mapping[str, Any], retention: Callable[[], Retention]) -> dict[str, Any]:
    """The fields of a definition that are about a job rather than about a step."""
    on_failure = options.get("on_failure")
    return {
        "ttl": options.get("ttl"),
        "unique": as_unique(options.get("unique")),
        "keeps": _keeps(options["keep"], retention) if "keep" in options else retention,
        "dead_letter": options.get("dead_letter"),
        "on_failure": None if on_failure is None else _name(on_failure),
    }


def _keeps(
    keep: Duration | Retention | None, retention: Callable[[], Retention]
) -> Callable[[], Retention]:
    """What a task keeps. It is checked now; the app's part of it is asked for when it is needed."""
    if isinstance(keep, Retention):
        return lambda: keep
    Retention(succeeded=keep)
    return lambda: replace(retention(), succeeded=keep)


def _shared(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "queue": options.get("queue", DEFAULT_QUEUE),
        "priority": options.get("priority", 0),
        "retry": as_retry(options.get("retry")) or Retry(),
        "timeout": options.get("timeout"),
        "delay": options.get("delay"),
        "executor": _executor(function, options.get("executor")),
        "stop_grace": _stop_grace(function, options),
        "slots": options.get("slots"),
        "transaction": options.get("transaction", False),
        "key": as_key(options.get("concurrency_key")),
        "limit": as_limit(options.get("limit")),
    }


def _stop_grace(function: Callable[..., Any], options: Mapping[str, Any]) -> Duration:
    grace: Duration | None = options.get("stop_grace")
    if grace is None:
        return STOP_GRACE
    if _executor(function, options.get("executor")) != "thread":
        raise ConfigError(
            f"stop_grace is for plain functions in threads; {function.__qualname__} is "
            f"{'cancelled' if inspect.iscoroutinefunction(function) else 'killed'} at once"
        )
    return grace


def _name(task: Named | str) -> str:
    return check_name(task if isinstance(task, str) else task.name, "on_failure")


_KINDS = {"async": "a coroutine", "thread": "a plain"}


def _executor(function: Callable[..., Any], wanted: ExecutorKind | None) -> ExecutorKind:
    natural: ExecutorKind = "async" if inspect.iscoroutinefunction(function) else "thread"
    if wanted is None or wanted == natural:
        return natural
    if natural == "async" or wanted == "async":
        raise ConfigError(
            f"{function.__qualname__} is {_KINDS[natural]} function "
            f'and cannot run with executor="{wanted}"'
        )
    return wanted
