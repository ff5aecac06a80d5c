"""Jobs of tasks whose code is not at hand: the task is known by its name alone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from headway._api.enqueuing import enqueuing
from headway._api.new_job import Options, checked_headers
from headway._api.session import Session
from headway.core import codec
from headway.core.duration import optional_seconds
from headway.core.hooks import NewJobInfo
from headway.core.ids import new_id
from headway.core.keys import Key, Unique
from headway.core.names import check_name
from headway.errors import ConfigError, InvalidInput
from headway.store.statement import Statement
from headway.store.statements import jobs

_NEED_THE_CODE = ("timeout", "retry", "state", "conn")


def enqueue_by_name(
    session: Session,
    task: str,
    input_: Mapping[str, Any],
    options: Options,
    *,
    limit_key: str | None,
    no_keys: bool,
) -> ByName:
    """Return a new job, checked, with the statement that makes it."""
    for name in _NEED_THE_CODE:
        if getattr(options, name) is not None:
            raise ConfigError(f"{name} needs the task's code; use the task's own enqueue")
    if not isinstance(input_, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"the input {input_!r} is not a mapping of arguments by name")
    unique, key = _unique(options), _key(options)
    encoded = codec.check_size(codec.encode(dict(input_)), session.max_payload_bytes, "the input")
    job_id = new_id()
    given: dict[str, Any] = {
        "queue": options.queue,
        "delay": optional_seconds(options.delay),
        "at": options.at,
        "priority": options.priority,
        "ttl": optional_seconds(options.ttl),
        "unique_key": unique and unique.key,
        "on_taken": unique.policy if unique else "skip",
        "concurrency_key": key and key.key,
        "limit": key and key.limit,
        "ordered": key and key.ordered,
        "limit_key": limit_key,
        "no_keys": no_keys,
    }
    info = NewJobInfo(
        job_id=job_id,
        task=check_name(task, "task name"),
        step="",
        queue=options.queue,
        headers=dict(options.headers or {}),
        _input=encoded,
    )
    return ByName(info, encoded, given)


@dataclass(frozen=True, slots=True)
class ByName:
    """A job that is enqueued by the name of its task."""

    info: NewJobInfo
    _encoded: bytes
    _given: dict[str, Any]

    def around(self, session: Session) -> AbstractContextManager[None]:
        """Return the enqueue middleware of an app around the making of this job."""
        return enqueuing(session.hooks.enqueue, [self.info], _check_headers)

    def statement(self) -> Statement[UUID]:
        """Return the statement that makes it. Its answer is the id, or that of the key's holder."""
        headers = codec.encode_document(self.info.headers) if self.info.headers else None
        given = {**self._given, "headers": headers}
        return jobs.enqueue_by_name(self.info.job_id, self.info.task, self._encoded, given)


def _check_headers(job: NewJobInfo) -> None:
    checked_headers(job.headers)


def _unique(options: Options) -> Unique | None:
    unique = options.unique
    made = unique if isinstance(unique, Unique | None) else Unique(unique)
    if made is not None and not isinstance(made.key, str):
        raise ConfigError("unique needs the task's code; give the key as text")
    return made


def _key(options: Options) -> Key | None:
    key = options.concurrency_key
    made = key if isinstance(key, Key | None) else Key(key)
    if made is not None and not isinstance(made.key, str):
        raise ConfigError("concurrency_key needs the task's code; give the key as text")
    return made
