"""Logs of a worker process: lines for people, or one JSON object each, with the job as fields."""

from __future__ import annotations

import logging
import os
import sys
from datetime import UTC, datetime
from textwrap import indent
from typing import Any, Literal

from headway.core import codec
from headway.core.printable import printable

Format = Literal["text", "json"]

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has; anything else was given as `extra` and is a field."""


def set_up(level: str, format_: Format) -> None:
    """Sends every record of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format_ == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def in_use() -> tuple[str, Format] | None:
    """Return the level and the format if `set_up` has been called, for a process to do the same."""
    root = logging.getLogger()
    formatter = root.handlers[0].formatter if root.handlers else None
    if isinstance(formatter, JsonFormatter | TextFormatter):
        format_: Format = "json" if isinstance(formatter, JsonFormatter) else "text"
        return logging.getLevelName(root.level), format_
    return None


class JsonFormatter(logging.Formatter):
    """One object per line: time, level, logger, message, pid, and the record's fields."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": os.getpid(),
            **fields(record),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        try:
            return codec.encode_document(entry)
        except (TypeError, ValueError):
            # A field that is not JSON is shown as it would be printed; a log line is never lost.
            return codec.encode_document({key: _plain(value) for key, value in entry.items()})


class TextFormatter(logging.Formatter):
    """Time, level, logger, message; and the job, where the message does not name it itself.

    Only a record begins a line: line breaks in a message are spelled out, tracebacks are indented.
    """

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        said = printable(record.getMessage())
        line = f"{moment} {record.levelname:<7} {record.name}: {said}"
        found = {} if record.name == "headway.worker" else fields(record)
        if found:
            line += "  " + printable(" ".join(f"{name}={value}" for name, value in found.items()))
        if record.exc_info:
            trace = printable(self.formatException(record.exc_info), keep="\n\t")
            line += "\n" + indent(trace, "  ")
        return line


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """What was given with a record as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _OWN}


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
