"""A handler: a function with its options, its parameters, its keys and its steps. Read once."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

from headway.core import batch, codec, keys
from headway.core.batch import Batch
from headway.core.config import STOP_GRACE, Retention, check_priority
from headway.core.constraints import check_default, check_storable, stored_type
from headway.core.depends import Dependency
from headway.core.duration import optional_seconds, seconds
from headway.core.hooks import Hooks
from headway.core.injection import Injected, check_providers, injected, is_unreadable
from headway.core.keys import Key, Unique
from headway.core.limits import Limit
from headway.core.names import check_name
from headway.core.retry import Retry
from headway.core.signature import annotation, check_aliases, item_type
from headway.errors import ConfigError, InvalidInput

ExecutorKind = Literal["async", "thread", "process"]
RESERVED = frozenset({"self", "conn"})


@dataclass(frozen=True)
class Definition:
    """A task's function and options, or those of a flow's step.

    Annotations are read on first use, because a module may define types further down.
    """

    name: str
    """The name of the task, or of the flow."""
    function: Callable[..., Any] = field(repr=False)
    queue: str
    priority: int
    retry: Retry
    timeout: Any
    ttl: Any
    executor: ExecutorKind
    slots: int | None
    step: str = ""
    flow: Steps | None = field(default=None, repr=False)
    own: frozenset[str] = frozenset()
    """The step's own options. They come before those of the call, which come before the flow's."""
    delay: Any = None
    transaction: bool = False
    key: Key | None = None
    limit: Limit | None = None
    unique: Unique | None = None
    keeps: Callable[[], Retention] = field(default=Retention, repr=False)
    """Returns how long jobs are kept. It is called late, because the app's rules may be in a file."""
    dead_letter: str | None = None
    on_failure: str | None = None
    stop_grace: Any = STOP_GRACE
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    """Earlier names of parameters, in stored calls, with their names of today."""
    former_names: tuple[str, ...] = ()
    """Earlier names of the task, or of the step."""
    renamed_to: str | None = None
    """The step's name of today, if this is the definition under an earlier name."""
    batch: Batch | None = None
    """Set if the handler takes a list, with one item for each job, and returns a list."""
    hooks: Hooks = field(default_factory=Hooks, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_name(self.name, "flow name" if self.flow else "task name")
        if "/" in self.name:
            raise ConfigError(
                f"name {self.name!r} must not contain /, which separates flow and step"
            )
        if self.step:
            check_name(self.step, "step name")
        if "/" in self.step:
            raise ConfigError(
                f"step name {self.step!r} must not contain /, which separates flow and step"
            )
        check_name(self.queue, "queue")
        check_priority(self.priority)
        optional_seconds(self.timeout, name="timeout")
        optional_seconds(self.ttl, name="ttl")
        optional_seconds(self.delay, name="delay")
        optional_seconds(self.stop_grace, name="stop_grace")
        if self.dead_letter is not None:
            check_name(self.dead_letter, "dead_letter")
        if self.on_failure == self.name:
            raise ConfigError(f"{self.name} cannot take its own failures; name another task")
        if self.slots is not None and (type(self.slots) is not int or self.slots < 1):
            raise ConfigError(f"slots {self.slots!r} of {self.handler} must be at least 1")
        if not isinstance(self.transaction, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"transaction={self.transaction!r} of {self.handler} must be True or False"
            )
        if self.limit is not None and self.limit.key is not None and self.key is not None:
            raise ConfigError(
                f"{self.handler} has a limit by key and a concurrency_key; leave out one of them"
            )
        if self.executor == "process" and "<locals>" in self.function.__qualname__:
            raise ConfigError(
                f"{self.handler} runs in a process and must be defined at the top of a module, "
                "so that the process can import it"
            )
        if self.executor == "process" and self.transaction:
            raise ConfigError(
                f"{self.handler} runs in a process, which has no part in the worker's transaction; "
                "leave out transaction=True or executor"
            )
        if self.batch is not None:
            self._check_batch(self.batch)
        for parameter in self._signature.parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise ConfigError(
                    f"parameter {parameter} of {self.handler} has no name of its own in a stored "
                    "call; use named parameters"
                )
        if not RESERVED.isdisjoint(self._signature.parameters):
            try:
                _ = self.call_signature
            except ConfigError as error:
                if not is_unreadable(error):
                    raise

    @cached_property
    def handler(self) -> str:
        """The name by which workers find it: the task's, or the flow's and the step's."""
        return f"{self.name}/{self.step}" if self.step else self.name

    @cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    @cached_property
    def keep(self) -> Retention:
        return self.keeps()

    @cached_property
    def timeout_seconds(self) -> float | None:
        return optional_seconds(self.timeout)

    @cached_property
    def stop_grace_seconds(self) -> float:
        return seconds(self.stop_grace)

    @cached_property
    def injected(self) -> Injected:
        """The parameters that are not part of the call."""
        return injected(self.function, self.handler, batch=self.batch is not None)

    @property
    def context_parameter(self) -> str | None:
        """The parameter annotated `Context`; of a batch, `list[Context]`."""
        return self.injected.context

    @property
    def dependencies(self) -> dict[str, Dependency]:
        return self.injected.dependencies

    @cached_property
    def call_signature(self) -> inspect.Signature:
        """The signature of `enqueue`."""
        hidden = {self.context_parameter, *self.dependencies}
        kept = [p for p in self._signature.parameters.values() if p.name not in hidden]
        for name in RESERVED.intersection(p.name for p in kept):
            raise ConfigError(f"{self.handler} cannot have a parameter named {name}")
        # A dependency may stand before a required parameter. Keywords may be in any order.
        if any(
            a.default is not a.empty and b.default is b.empty and b.kind is b.POSITIONAL_OR_KEYWORD
            for a, b in pairwise(kept)
        ):
            kept = [p.replace(kind=p.KEYWORD_ONLY) for p in kept]
        if self.batch is not None:
            kept = [batch.one_item(self.function, self.handler, kept)]
        return self._signature.replace(parameters=kept)

    @cached_property
    def parameters(self) -> codec.Parameters:
        fields: dict[str, tuple[Any, Any]] = {}
        for name, parameter in self.call_signature.parameters.items():
            default = codec.REQUIRED if parameter.default is parameter.empty else parameter.default
            kind = annotation(self.function, name)
            fields[name] = (kind if self.batch is None else item_type(kind), default)
        try:
            stored = {
                name: (stored_type(kind), default) for name, (kind, default) in fields.items()
            }
            for name, (kind, default) in stored.items():
                check_default(name, default)
                check_storable(name, kind)
            check_aliases(self.handler, self.aliases, fields)
            return codec.Parameters(self.function.__name__, stored, self.aliases)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"the parameters of {self.handler} cannot be stored: {error}"
            ) from error

    def check_parameters(self) -> None:
        """Raise ConfigError if a parameter can be neither stored nor injected.

        A type that cannot be read by now is left for later: it may be defined further down.
        """
        for check in (self._check_injected, lambda: self.parameters):
            try:
                check()
            except NameError:
                continue
            except ConfigError as error:
                if not is_unreadable(error):
                    raise

    def _check_injected(self) -> None:
        check_providers(self.handler, self.dependencies, batch=self.batch is not None)

    @cached_property
    def result(self) -> codec.Shape[Any]:
        """Reads stored results as the type that the function returns. Results of a flow are plain values,
        because any step may end it."""
        kind = Any if self.flow is not None else annotation(self.function, "return")
        try:
            return codec.Shape(kind if self.batch is None else batch.answer_type(kind))
        except (TypeError, NameError):  # not a type of JSON, or fields with types for checkers only
            return codec.Shape(Any)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name. Raise InvalidInput if they do not fit the signature."""
        try:
            return self.call_signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise InvalidInput(f"{self.handler}: {error}; it takes {self.call_signature}") from None

    def encode_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """Return a call as JSON, like `encode` of what `bind` returns.

        The parameters themselves refuse names that are unknown or missing, so a correct call is not
        bound. An incorrect one is, for the words of its error.
        """
        if args:
            return self.encode(self.bind(args, kwargs))
        try:
            return self.parameters.encode(kwargs)
        except (TypeError, InvalidInput):
            return self.encode(self.bind(args, kwargs))

    def encode(self, arguments: Mapping[str, Any]) -> bytes:
        """Return a call as JSON. Raise InvalidInput if a value does not fit its parameter."""
        try:
            return self.parameters.encode(arguments)
        except InvalidInput as error:
            for name, value in arguments.items():
                if isinstance(value, float) and not math.isfinite(value):
                    raise InvalidInput(
                        f"{self.handler}: {name} is {value}, which JSON does not hold; send text or None"
                    ) from error
            raise type(error)(f"{self.handler}: {error}") from error

    @property
    def following(self) -> Definition | None:
        """The next step of a chain, which takes the result of this one."""
        step = self.renamed_to or self.step
        return None if self.flow is None else self.flow.following.get(step)

    def key_of(self, key: Key | None, arguments: Mapping[str, Any]) -> str | None:
        """Return the concurrency key of a call with these arguments."""
        return (
            None if key is None else keys.name(key.key, self._whole(arguments), "concurrency_key")
        )

    def limit_key_of(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the key of a call under the handler's limit, or None if that has no key."""
        if self.limit is None or self.limit.key is None:
            return None
        name = keys.name(self.limit.key, self._whole(arguments), "the key of a limit")
        return None if name is None else f"{self.handler}/{name}"

    def unique_of(self, unique: Unique | None, arguments: Mapping[str, Any]) -> str | None:
        """Return the unique key of a call with these arguments."""
        return None if unique is None else keys.name(unique.key, self._whole(arguments), "unique")

    @property
    def made_keys(self) -> list[str]:
        """The keys that this code computes for a call, by their names in SQL. SQL callers cannot."""
        limited = self.limit is not None and self.limit.key is not None
        has = {
            "unique_key": self.unique is not None,
            "concurrency_key": self.key is not None,
            "limit_key": limited,
        }
        return [name for name, given in has.items() if given]

    def check(self) -> None:
        """Raise ConfigError if something is wrong that is otherwise read on first use."""
        _ = (self.parameters, self.result)
        self._check_injected()
        self._check_chain()
        if self.executor == "process" and not self.is_importable():
            raise ConfigError(
                f"{self.handler} runs in a process, which cannot find it: {self.function.__module__} "
                f"has no {self.function.__qualname__}; assign it to its function's name there"
            )

    def _check_batch(self, together: Batch) -> None:
        if self.transaction or self.executor == "process":
            raise ConfigError(
                f"{self.handler} takes batches: its jobs run in one call, each with an end of its own, "
                "so neither in a transaction nor in a process; leave out transaction=True or executor"
            )
        if self.slots is not None:
            together.check_slots(self.handler, self.slots, "it has slots for")

    def _check_chain(self) -> None:
        step = self.following
        if step is None:
            return
        try:
            step.call_signature.bind(None)
        except TypeError:
            takes = f"it takes {step.call_signature}, not one value, the result of {self.step}"
            raise ConfigError(f"{step.handler} follows {self.step}, but {takes}") from None

    def _whole(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments, with the defaults of those left out, for the function of a key."""
        defaults = {
            name: parameter.default
            for name, parameter in self.call_signature.parameters.items()
            if parameter.default is not parameter.empty
        }
        return defaults | dict(arguments)

    def is_importable(self) -> bool:
        """Return whether its module has it under the name of its function."""
        found: Any = sys.modules.get(self.function.__module__)
        for part in self.function.__qualname__.split("."):
            found = getattr(found, part, None)
        return getattr(getattr(found, "definition", None), "function", None) is self.function


@dataclass(eq=False)
class Steps:
    """The steps of one flow that are declared so far."""

    flow: str
    state: codec.Shape[Any] | None = None
    """Reads the state of the flow. None if the flow has no state."""
    initial: Callable[[], Any] = dict
    """Makes the state of a job that is enqueued without one."""
    key: Key | None = None
    """The concurrency key of a job that is enqueued without one, for steps without their own key."""
    steps: dict[str, Definition] = field(default_factory=dict[str, Definition])
    former_names: tuple[str, ...] = ()
    """Earlier names of the flow."""
    following: dict[str, Definition] = field(default_factory=dict[str, Definition])
    """The next step of each step in a chain, which takes its result."""

    def add(self, definition: Definition) -> None:
        if definition.step in self.steps:
            raise ConfigError(
                f"flow {self.flow} has a step {definition.step!r} already; give this one another name="
            )
        self.steps[definition.step] = definition

    def first(self) -> Definition:
        """Return the step that the flow starts at: the first one declared."""
        if not self.steps:
            raise ConfigError(f"flow {self.flow} has no steps yet; declare one with @flow.step")
        return next(iter(self.steps.values()))

    def initial_state(self) -> Any:
        """Return the state of a job that is enqueued without one."""
        try:
            return self.initial()
        except TypeError as error:
            raise InvalidInput(
                f"the state of flow {self.flow} cannot be made without arguments ({error}); give its "
                "fields defaults, or the job a state with using(state=...)"
            ) from error

    def read_state(self, text: str | bytes) -> Any:
        """Return a stored state as its type. Raise InvalidInput if it does not fit."""
        assert self.state is not None, "only a flow that carries state gets here"
        try:
            return self.state.decode(text)
        except InvalidInput as error:
            raise InvalidInput(f"the state of flow {self.flow}: {error}") from error

    def write_state(self, state: Any, most_bytes: int) -> bytes:
        """Return a state as JSON. It is read back, as the next step will read it."""
        what = f"the state of flow {self.flow}"
        try:
            encoded = codec.encode(state)
        except InvalidInput as error:
            raise InvalidInput(f"{what} {error}") from error
        self.read_state(encoded)
        return codec.check_size(encoded, most_bytes, what)
