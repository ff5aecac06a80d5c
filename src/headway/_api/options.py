"""The options of tasks, flows and steps, and the definitions made of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Protocol, TypedDict, cast, get_args

from headway.core.batch import Batch
from headway.core.config import DEFAULT_QUEUE, STOP_GRACE, Keep, Retention, keep_seconds
from headway.core.definition import Definition, ExecutorKind, Steps
from headway.core.duration import Duration
from headway.core.hooks import Hooks
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
    """The options of `@flow.step(...)`. Those left out come from the call, else from the flow."""

    name: str | None
    """Another name than the function's."""
    queue: str
    priority: int
    retry: Retry | int | None
    """A number of attempts, which keeps the rest of the policy, or a `Retry`."""
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
    """Limits how many jobs with the same key run at once in the whole fleet."""
    limit: Limit | None
    """How many run at once and how many start in a time, anywhere; by key, each key on its own."""
    aliases: Mapping[str, str] | None
    """Earlier names of parameters, with those of today: jobs made with the earlier ones still run."""
    former_names: Sequence[str] | None
    """Earlier names of the task or step: jobs made under them still run."""


class _Endings(TypedDict, total=False):
    ttl: Duration | None
    """How long a job may wait before it expires."""
    unique: By | Unique | None
    """Makes no second job of the same key."""
    keep: Keep | Retention | None
    """How long a success is kept: "7d", "forever", or "none" to delete it at once. A `Retention` has
    rules for failures as well."""
    dead_letter: str | None
    """A queue to which a failed job goes as a new one."""
    on_failure: Named | str | None
    """A task that is called with the failure."""
    schedule: Scheduled | None
    """When jobs are made of it by themselves: "0 8 * * *[Europe/Berlin]", a `Schedule`, or several."""


class TaskOptions(StepOptions, _Endings, total=False):
    """The options of `@hw.task(...)`."""


class BatchTaskOptions(TaskOptions):
    """The options of `@hw.task(batch=...)`."""

    batch: Batch
    """The handler takes a list: several jobs in one call."""


class FlowOptions(_Endings, total=False):
    """The options of `hw.flow(name, ...)`: defaults of its steps, and options of the job."""

    queue: str
    priority: int
    retry: Retry | int | None
    """A number is that of attempts."""
    timeout: Duration | None
    transaction: bool
    concurrency_key: By | Key | None
    former_names: Sequence[str] | None
    """Earlier names of the flow: jobs made under them still run."""


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
    function: Callable[..., Any], options: Mapping[str, Any], retention: Callable[[], Retention],
    hooks: Hooks,
) -> Definition:  # fmt: skip
    """The definition of a task."""
    check_options(BatchTaskOptions, options, "a task")
    _check_function(function, "a task")
    batch = options.get("batch")
    if batch is not None and not isinstance(batch, Batch):
        raise ConfigError(f"batch {batch!r} must be a Batch, such as Batch(size=100, wait='1s')")
    definition = Definition(
        name=options.get("name") or function.__name__,
        function=function,
        batch=batch,
        hooks=hooks,
        **_history(options),
        **_shared(function, options),
        **endings(options, retention),
    )
    definition.check_parameters()
    return definition


def define_step(
    steps: Steps, flow: Mapping[str, Any], function: Callable[..., Any], options: Mapping[str, Any],
    retention: Callable[[], Retention], hooks: Hooks,
) -> Definition:  # fmt: skip
    """The definition of a step; `flow` are the options of its flow."""
    check_options(StepOptions, options, f"a step of {steps.flow}")
    _check_function(function, f"a step of {steps.flow}")
    kept = {name: value for name, value in flow.items() if name in StepOptions.__annotations__}
    retry = as_retry(options.get("retry"), over=as_retry(flow.get("retry")))
    definition = Definition(
        name=steps.flow,
        function=function,
        step=options.get("name") or function.__name__,
        flow=steps,
        own=frozenset(options) - {"name", "aliases", "former_names"},
        hooks=hooks,
        **_history(options),
        **_shared(function, {**kept, **options, "retry": retry}),
        **endings(flow, retention),
    )
    definition.check_parameters()
    return definition


def _check_function(function: object, what: str) -> None:
    """Raise ConfigError for a value that is not a function, or has no name to be found by."""
    if not callable(function) or not hasattr(function, "__qualname__"):
        raise ConfigError(f"{what} is made of a function, not of {function!r}; write one with def")


def endings(options: Mapping[str, Any], retention: Callable[[], Retention]) -> dict[str, Any]:
    """The fields of a definition that are about a job rather than about a step."""
    on_failure = options.get("on_failure")
    return {
        "ttl": options.get("ttl"),
        "unique": as_unique(options.get("unique")),
        "keeps": _keeps(options.get("keep"), retention),
        "dead_letter": options.get("dead_letter"),
        "on_failure": None if on_failure is None else _name(on_failure),
    }


def _keeps(
    keep: Keep | Retention | None, retention: Callable[[], Retention]
) -> Callable[[], Retention]:
    """Return how long jobs of a task are kept. The app's rules are read later: they may be in a file."""
    if keep is None:
        return retention
    if isinstance(keep, Retention):
        rules = keep
    else:
        keep_seconds(keep)
        rules = Retention(succeeded=keep)
    return lambda: rules.over(retention())


def former_names(given: object) -> tuple[str, ...]:
    """Return earlier names as a tuple. Raise ConfigError if they are not names."""
    if given is None:
        return ()
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigError(f"former_names={given!r} must be a list of names")
    names = tuple(cast("Sequence[Any]", given))  # type: ignore[redundant-cast]
    for name in names:
        if "/" in check_name(name, "former name"):
            raise ConfigError(f"former name {name!r} must not contain /")
    return names


def _both(aliases: dict[Any, Any]) -> list[Any]:
    return [*aliases, *aliases.values()]


def _history(options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a definition about earlier versions of the code."""
    aliases: Any = options.get("aliases")
    aliases = {} if aliases is None else aliases
    if not isinstance(aliases, dict) or not all(isinstance(n, str) for n in _both(aliases)):  # pyright: ignore[reportUnknownArgumentType]
        raise ConfigError(
            f"aliases={aliases!r} must map earlier names of parameters to those of today"
        )
    return {"aliases": aliases, "former_names": former_names(options.get("former_names"))}


def _shared(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "queue": options.get("queue", DEFAULT_QUEUE),
        "priority": options.get("priority", 0),
        "retry": as_retry(options.get("retry")),
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
    return check_name(getattr(task, "name", task), "on_failure")  # type: ignore[arg-type]


_KINDS = {"async": "a coroutine", "thread": "a plain"}


def _executor(function: Callable[..., Any], wanted: ExecutorKind | None) -> ExecutorKind:
    natural: ExecutorKind = "async" if inspect.iscoroutinefunction(function) else "thread"
    if wanted is None or wanted == natural:
        return natural
    if wanted not in get_args(ExecutorKind):
        raise ConfigError(
            f"executor={wanted!r} of {function.__qualname__} must be "
            f"{' or '.join(map(repr, get_args(ExecutorKind)))}"
        )
    if natural == "async" or wanted == "async":
        raise ConfigError(
            f"{function.__qualname__} is {_KINDS[natural]} function "
            f'and cannot run with executor="{wanted}"'
        )
    return wanted
