"""One call: its options, and the job that it makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypedDict

from headway.core import codec
from headway.core.config import check_priority
from headway.core.definition import Definition
from headway.core.duration import Duration, optional_seconds, seconds
from headway.core.ids import new_id
from headway.core.keys import By, Key, Unique, as_key, as_unique
from headway.core.limits import BY_LIMIT
from headway.core.moments import check_moment
from headway.core.names import check_name
from headway.core.retry import Retry, as_retry
from headway.errors import ConfigError, InvalidInput
from headway.store.documents import NewJob, PlainShape

_MOST_ROWS = 5_000
_MOST_BYTES = 8 * 1024 * 1024
"""One statement's worth of an enqueue_many; a larger call is several, in one transaction."""


class CallOptions(TypedDict, total=False):
    """The options of `using`. Those left out come from the task."""

    delay: Duration | None
    """The earliest start, as a duration from now."""
    at: datetime | None
    """Not before then."""
    priority: int | None
    queue: str | None
    timeout: Duration | None
    retry: Retry | int | None
    headers: Mapping[str, str] | None
    ttl: Duration | None
    """Expires if it waits for longer."""
    unique: By | Unique | None
    concurrency_key: By | Key | None
    state: Any
    """The initial state of a flow."""
    conn: Any
    """The connection in whose transaction the job is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a call, checked."""

    delay: Duration | None = None
    at: datetime | None = None
    priority: int | None = None
    queue: str | None = None
    timeout: Duration | None = None
    retry: Retry | int | None = None
    headers: Mapping[str, str] | None = None
    ttl: Duration | None = None
    unique: By | Unique | None = None
    concurrency_key: By | Key | None = None
    state: Any = None
    conn: Any = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """From keyword arguments; one that does not exist is a ConfigError."""
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise ConfigError(f"using() has no option {name!r}; it takes {', '.join(known)}")
        return cls(**given)

    def __post_init__(self) -> None:
        optional_seconds(self.delay, name="delay")
        optional_seconds(self.timeout, name="timeout")
        optional_seconds(self.ttl, name="ttl")
        if self.retry is not None:
            as_retry(self.retry)
        if self.delay is not None and self.at is not None:
            raise ConfigError("delay and at both say when; give one of them")
        if self.at is not None:
            check_moment(self.at, "at")
        if self.priority is not None:
            check_priority(self.priority)
        if self.queue is not None:
            check_name(self.queue, "queue")
        as_key(self.concurrency_key)
        as_unique(self.unique)
        checked_headers(self.headers)


def checked_headers(headers: Mapping[str, str] | None) -> bytes:
    """Return headers as JSON; nothing for none. Raise an error if they are not texts."""
    if headers is not None and not isinstance(headers, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"headers={headers!r} is not a mapping of texts")
    for name, value in (headers or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"header {name!r} must be text with a text value")
    return codec.encode(dict(headers)) if headers else b""


def check_size(definition: Definition, encoded: bytes, headers: bytes, most_bytes: int) -> None:
    """Raise PayloadTooLarge if the input of a call and its headers have more bytes together."""
    if headers:
        what = f"the input of {definition.handler} with its headers"
        codec.check_size(encoded + headers, most_bytes, what)
    else:
        check_input(definition, encoded, most_bytes)


def new_job(
    definition: Definition,
    options: Options,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    most_bytes: int,
) -> NewJob:
    """The job of a call. An option is the step's own, else the call's, else the task's or flow's."""
    arguments = definition.bind(args, kwargs)
    encoded = definition.encode(arguments)
    headers = codec.encode(dict(options.headers)) if options.headers else b""
    check_size(definition, encoded, headers, most_bytes)
    retry = as_retry(_chosen("retry", definition, options), over=definition.retry)
    job = NewJob(
        id=str(new_id()),
        queue=_chosen("queue", definition, options),
        task=definition.name,
        step=definition.step,
        priority=_chosen("priority", definition, options),
        max_attempts=retry.max_attempts,
        input=codec.Raw(encoded),
        at=options.at,
        delay=_delay(definition, options),
        ttl=optional_seconds(definition.ttl if options.ttl is None else options.ttl),
        headers=dict(options.headers) if options.headers else None,
        carried=_carried(definition, options, most_bytes),
    )
    shared = _shared_key(definition, options, arguments)
    held = shared
    if "concurrency_key" in definition.own:
        held = _named(definition, definition.key, arguments)
    if (limited := definition.limit_key_of(arguments)) is not None:
        if options.concurrency_key is not None:
            raise ConfigError(
                f"{definition.handler} has a limit by key; leave out concurrency_key in the call"
            )
        held = (limited, BY_LIMIT, False)
    if held is not None:
        job.key, job.key_limit, job.ordered = held
    unique = definition.unique if options.unique is None else as_unique(options.unique)
    if unique is not None and (name := definition.unique_of(unique, arguments)) is not None:
        job.unique_key, job.on_taken = name, unique.policy
        job.until_claimed = unique.scope == "waiting"
        job.period = optional_seconds(unique.period)
    job.options = _stored(definition, options, shared)
    return job


def check_input(definition: Definition, encoded: bytes, most_bytes: int) -> bytes:
    """Return the input of a call. Raise PayloadTooLarge if it has more bytes."""
    if len(encoded) > most_bytes:
        codec.check_size(encoded, most_bytes, f"the input of {definition.handler}")
    return encoded


def plain_shape(definition: Definition, options: Options) -> PlainShape | None:
    """Return what the jobs of such calls share, or None if they are not plain.

    A plain job is ready at once and has no key, header, state or option of its own. Names that are not
    ASCII take the way of the others, where the server checks them thoroughly.
    """
    steps = definition.flow
    keyed = definition.key is not None or definition.unique is not None
    limited = definition.limit is not None and definition.limit.key is not None
    chosen = (options.at, options.headers, options.unique, options.concurrency_key, options.state)
    if (
        keyed
        or limited
        or any(each is not None for each in chosen)
        or (steps is not None and (steps.key is not None or steps.state is not None))
        or _delay(definition, options)
        or (definition.ttl if options.ttl is None else options.ttl) is not None
        or _stored(definition, options, None) is not None
    ):
        return None
    queue: str = _chosen("queue", definition, options)
    if not (queue.isascii() and definition.name.isascii() and definition.step.isascii()):
        return None
    retry = as_retry(_chosen("retry", definition, options), over=definition.retry)
    priority: int = _chosen("priority", definition, options)
    return PlainShape(queue, definition.name, definition.step, priority, retry.max_attempts)


def chunks(made: Sequence[NewJob]) -> Iterator[list[NewJob]]:
    """Jobs in portions that are sent in one statement each."""
    chunk, size = list[NewJob](), 0
    for job in made:
        bytes_of = len(memoryview(job.input))
        if chunk and (len(chunk) >= _MOST_ROWS or size + bytes_of > _MOST_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(job)
        size += bytes_of
    if chunk:
        yield chunk


def portions(inputs: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """The same for inputs: where each portion begins and ends."""
    first = size = 0
    for place, input_ in enumerate(inputs):
        if place > first and (place - first >= _MOST_ROWS or size + len(input_) > _MOST_BYTES):
            yield first, place
            first, size = place, 0
        size += len(input_)
    if first < len(inputs):
        yield first, len(inputs)


def _chosen(option: str, definition: Definition, options: Options) -> Any:
    given = getattr(options, option)
    if given is None or option in definition.own:
        return getattr(definition, option)
    return given


_NamedKey = tuple[str, int, bool]
"""A key of concurrency as it is stored: its name, its limit, whether it is ordered."""


def _shared_key(
    definition: Definition, options: Options, arguments: Mapping[str, Any]
) -> _NamedKey | None:
    """The key of the whole job, for every step that has none of its own."""
    key = as_key(options.concurrency_key)
    if key is None:
        key = definition.key if definition.flow is None else definition.flow.key
    return _named(definition, key, arguments)


def _named(
    definition: Definition, key: Key | None, arguments: Mapping[str, Any]
) -> _NamedKey | None:
    if key is None or (name := definition.key_of(key, arguments)) is None:
        return None
    return name, key.limit, key.ordered


def _delay(definition: Definition, options: Options) -> float | None:
    if options.at is not None:
        return None
    return optional_seconds(definition.delay if options.delay is None else options.delay)


def _carried(definition: Definition, options: Options, most_bytes: int) -> codec.Raw | None:
    steps = definition.flow
    if steps is None or steps.state is None:
        if options.state is not None:
            raise ConfigError(f"{definition.handler} carries no state; define its flow with state=")
        return None
    state = steps.initial_state() if options.state is None else options.state
    return codec.Raw(steps.write_state(state, most_bytes))


def _stored(
    definition: Definition, options: Options, shared: _NamedKey | None
) -> dict[str, Any] | None:
    """Return the options that the row keeps for the worker, and for later steps."""
    kept: dict[str, Any] = {}
    if options.timeout is not None:
        kept["timeout"] = seconds(options.timeout)
    if isinstance(options.retry, Retry):
        kept["retry"] = options.retry.stored()
    if definition.flow is not None:
        if options.retry is not None:
            kept["max_attempts"] = as_retry(options.retry).max_attempts
        if options.queue is not None:
            kept["queue"] = options.queue
        if options.priority is not None:
            kept["priority"] = options.priority
        if shared is not None:
            kept["key"] = list(shared)
    return kept or None
