"""The log format of a worker process: lines for people, or JSON objects, with the job as fields."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from textwrap import indent
from typing import Any, Literal

from headway.core import codec
from headway.core.current import BATCH_SIZE, CLAIMED
from headway.core.printable import printable
from headway.errors import ConfigError

Format = Literal["text", "json"]

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes of every record. All others come from `extra` and are fields."""


@dataclass(frozen=True, slots=True)
class LogSetUp:
    """How a worker process logs, so that its children can do the same."""

    level: str = "INFO"
    format: Format = "text"
    config: tuple[str, Mapping[str, Any] | None] | None = None
    """A file for `logging.config`, with its dictionary; None instead of it for an ini file."""

    def apply(self) -> None:
        """Set up logging in this process. Raise ConfigError if `logging.config` refuses the file."""
        if self.config is None:
            set_up(self.level, self.format)
        else:
            set_up_from(*self.config)


_from_file: LogSetUp | None = None


def set_up_from(path: str, table: Mapping[str, Any] | None) -> None:
    """Set up logging by a file. Loggers that exist stay enabled, unless the file says otherwise."""
    from logging.config import dictConfig, fileConfig  # few need it, and it imports servers

    global _from_file
    try:
        if table is None:
            fileConfig(path, disable_existing_loggers=False)
        else:
            base: dict[str, Any] = {"version": 1, "disable_existing_loggers": False}
            dictConfig(base | dict(table))
    except Exception as error:  # the classes in a file may raise anything
        cause = "" if error.__cause__ is None else f" ({error.__cause__!r})"
        raise ConfigError(f"log config {path} is refused: {error}{cause}") from error
    _from_file = LogSetUp(config=(path, table))


def set_up(level: str, format_: Format) -> None:
    """Send every record of this process to standard error."""
    global _from_file
    _from_file = None
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format_ == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def in_use() -> LogSetUp | None:
    """Return how `headway worker` set up logging; None if the program did it in a way of its own."""
    if _from_file is not None:
        return _from_file
    root = logging.getLogger()
    formatter = root.handlers[0].formatter if root.handlers else None
    if isinstance(formatter, JsonFormatter | TextFormatter):
        format_: Format = "json" if isinstance(formatter, JsonFormatter) else "text"
        return LogSetUp(logging.getLevelName(root.level), format_)
    return None


class JobFilter(logging.Filter):
    """A filter for log handlers: it adds the current job to each record and lets all records pass.

    A record gets `job_id`, `task`, `step` and `attempt`, and in a call for a batch `batch_size`. Fields
    that the record has already stay as they are. A worker adds this filter to every handler of its
    process when it starts.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        claim = CLAIMED.get()
        if claim is not None:
            found = vars(record)
            found.setdefault("job_id", claim.id)
            found.setdefault("task", claim.task)
            found.setdefault("step", claim.step)
            found.setdefault("attempt", claim.attempt)
            if (size := BATCH_SIZE.get()) > 1:
                found.setdefault("batch_size", size)
        return True


def name_jobs() -> None:
    """Add `JobFilter` to every handler of this process that has none.

    A filter of a handler sees the records of all libraries, and leaves loggers and the record factory
    alone. A record factory could not do it: `extra` may not name a field that it sets.
    """
    loggers = [logging.getLogger(), *logging.getLogger().manager.loggerDict.values()]
    for logger in loggers:
        for handler in logger.handlers if isinstance(logger, logging.Logger) else ():
            if not any(isinstance(one, JobFilter) for one in handler.filters):
                handler.addFilter(JobFilter())


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
            # A field that is not JSON is shown by its repr, so that no log line is lost.
            return codec.encode_document({key: _plain(value) for key, value in entry.items()})


class TextFormatter(logging.Formatter):
    """Time, level, logger and message, and the job if the message does not name it.

    Only a record begins a line: line breaks in a message are escaped, and tracebacks are indented.
    """

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        message = printable(record.getMessage())
        line = f"{moment} {record.levelname:<7} {record.name}: {message}"
        found = {} if record.name == "headway.worker" else fields(record)
        if found:
            shown = (f"{name}={value}" for name, value in found.items() if value != "")
            line += "  " + printable(" ".join(shown))
        if record.exc_info:
            trace = printable(self.formatException(record.exc_info), keep="\n\t")
            line += "\n" + indent(trace, "  ")
        return line


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields that were passed as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _OWN}


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
