"""The queue notation: `mail:3` is a weight, `reports=2` are slots of its own, `*` is all other queues."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headway.errors import ConfigError


@dataclass(frozen=True, slots=True)
class QueueNotation:
    """Queues that share a worker's slots, by weight, and those that have slots of their own."""

    queues: dict[str, int] = field(default_factory=dict[str, int])
    dedicated: dict[str, int] = field(default_factory=dict[str, int])


def read_queues(entries: Iterable[str]) -> QueueNotation:
    """Parse a list of queues. Raise ConfigError if an entry is invalid.

    >>> read_queues(["mail:3", "default", "reports=2", "*"])
    QueueNotation(queues={'mail': 3, 'default': 1, '*': 1}, dedicated={'reports': 2})
    """
    read = QueueNotation()
    for entry in entries:
        name, sign, number = _parts(entry.strip())
        if name in read.queues or name in read.dedicated:
            raise ConfigError(f"queue {name!r} is named twice; name it once")
        (read.dedicated if sign == "=" else read.queues)[name] = number
    return read


def read_queues_text(text: str) -> QueueNotation:
    """Parse the same notation with commas: `mail:3, reports=2, *`."""
    return read_queues(entry for entry in text.split(",") if entry.strip())


def _parts(entry: str) -> tuple[str, str, int]:
    sign = max(":=", key=entry.rfind)
    name, found, number = entry.rpartition(sign)
    if not found:
        return _named(entry, entry), "", 1
    if not (number.isascii() and number.isdecimal()) or int(number) < 1:
        what = "a queue's weight" if sign == ":" else "a queue's number of slots"
        raise ConfigError(f"{entry!r}: {what} must be a whole number, 1 or more")
    return _named(name, entry), sign, int(number)


def _named(name: str, entry: str) -> str:
    if not name:
        raise ConfigError(f"{entry!r} names no queue; write it like 'mail', 'mail:3' or 'mail=2'")
    return name
