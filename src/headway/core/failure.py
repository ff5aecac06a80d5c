"""The error envelope: the plain JSON that Headway stores about a failure.

    {"type": "module.Class" or one of the names below, "message": "...",
     "traceback": "...", "chain": [{"type": ..., "message": ...}, ...]}

Names without a module are failures that no handler raised.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import UUID

_WORKER = str(Path(__file__).parents[1] / "engine" / "running")

INVALID_INPUT = "InvalidInput"
INVALID_RESULT = "InvalidResult"
TIMED_OUT = "TimedOut"
CANCELLED = "Cancelled"
EXPIRED = "Expired"
WORKER_LOST = "WorkerLost"
PROCESS_DIED = "ProcessDied"

_LONGEST_MESSAGE = 8_000
_LONGEST_TRACEBACK = 32_000
_LONGEST_CHAIN = 10

Envelope = dict[str, Any]
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed job. `hw.failures()` yields it, and an `on_failure` task receives it."""

    job_id: UUID
    task: str
    step: str
    queue: str
    attempt: int
    failed_at: datetime
    error: Envelope
    """`type`, `message`, `traceback` and `chain`."""
    input: Any = None
    headers: dict[str, str] | None = None


class StoredTraceback(Exception):
    """Stands in the log for an exception of another process. Its text is the traceback of that."""

    def __str__(self) -> str:
        return f"\n{self.args[0].rstrip()}"


def envelope(kind: str, message: str) -> Envelope:
    """Return the envelope of a failure that is not an exception."""
    return {"type": kind, "message": storable(message, _LONGEST_MESSAGE)}


def envelope_of(error: BaseException, kind: str | None = None) -> Envelope:
    """Return the envelope of an exception, with its traceback and its chain of causes.

    `kind`, one of the names above, replaces the type if the exception is not the handler's own.
    """
    return {
        "type": kind or _name(error),
        "message": storable(_text(error), _LONGEST_MESSAGE),
        "traceback": storable(_format(error), _LONGEST_TRACEBACK),
        "chain": [
            {"type": _name(cause), "message": storable(_text(cause), _LONGEST_MESSAGE)}
            for cause in _causes(error)
        ],
    }


def _name(error: BaseException) -> str:
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:  # a __str__ that raises must not hide that the job failed
        return f"<no message: its __str__ raised {type(broken).__name__}>"


def _format(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, of_the_handler(error)))
    except BaseException:
        return "".join(traceback.format_tb(error.__traceback__))


def exc_info(envelope: Envelope, error: BaseException | None) -> ExcInfo | None:
    """Return the exception of a failed attempt as `logging` takes it, or None if there is none.

    If the exception is in another process, or is not text that every log can take, it is one that prints
    the stored traceback.
    """
    if error is not None and _can_be_written(error):
        return type(error), error, of_the_handler(error)
    if "traceback" not in envelope:
        return None
    stored = StoredTraceback(envelope["traceback"])
    return StoredTraceback, stored, None


def _can_be_written(error: BaseException) -> bool:
    """Return whether a traceback has no lone surrogates, which files refuse, and is not very long."""
    formatted = _format(error)
    return len(formatted) <= _LONGEST_TRACEBACK and storable(formatted, len(formatted)) == formatted


def of_the_handler(error: BaseException) -> TracebackType | None:
    """Return the traceback without the frames of the worker that called the handler."""
    found = current = error.__traceback__
    while current is not None:
        if current.tb_frame.f_code.co_filename.startswith(_WORKER) and current.tb_next is not None:
            found = current.tb_next
        current = current.tb_next
    return found


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    current = error
    while len(found) < _LONGEST_CHAIN:
        following = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )
        # Compare by identity: an exception may define __eq__.
        if following is None or any(following is one for one in found):
            break
        found.append(following)
        current = following
    return found


def storable(text: str, longest: int) -> str:
    """Return text that jsonb accepts: no NUL, no lone surrogates. Long text keeps its two ends."""
    clean = text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
    if len(clean) <= longest:
        return clean
    half = longest // 2
    return f"{clean[:half]}\n... {len(clean) - longest} characters left out ...\n{clean[-half:]}"
