"""Hearing of work: notifications from the database, turned into hints for the others."""

from __future__ import annotations

import re
from typing import Protocol

from headway.engine.service import Service, log
from headway.store.connect import Target
from headway.store.listen import Deaf, Listener
from headway.store.rows import Lane

_TRY_AGAIN = 60.0
_MOST_PRIORITIES = 100
_LONGEST_NAME = 500
_PRIORITY = re.compile(r"-?[0-9]{1,5}")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Events(Protocol):
    """Who is told what was heard."""

    def ready(self, lane: Lane | None) -> None:
        """There may be ready jobs in a lane, or anywhere."""

    def later(self) -> None:
        """A job was scheduled."""

    def joined(self) -> None:
        """A job was blocked behind a key."""

    def room(self, job_id: str | None) -> None:
        """There may be room under the key of a job, or of any."""

    def control(self) -> None:
        """A pause or a limit has changed."""

    def opened(self, kind: str, name: str) -> None:
        """There may be room under a limit."""

    def cancel(self, job_id: str) -> None:
        """Somebody may have asked a job to stop."""

    def drain(self, worker: str) -> None:
        """Somebody may have asked a worker to drain."""

    def scheduled(self) -> None:
        """A schedule has changed."""

    def listening(self, listening: bool) -> None:
        """Notifications arrive, or do not."""


class Wake(Service):
    """Listens for as long as it can; says so when it cannot, so that others poll instead."""

    waits_long = True

    def __init__(self, target: Target, channel: str, events: Events) -> None:
        super().__init__()
        self._listener = Listener(target, channel)
        self._events = events

    async def turn(self) -> float | None:
        try:
            await self._listener.open()
            self.track.works()
            self._events.listening(True)
            # What was announced while nobody listened must be looked for.
            self._events.ready(None)
            self._events.later()
            self._events.joined()
            self._events.scheduled()
            async for payload in self._listener.heard():
                self._hear(payload)
            return 0
        except Deaf as deaf:
            log.warning("%s", deaf)
            return _TRY_AGAIN
        finally:
            self._events.listening(False)
            await self._listener.close()

    def cut(self) -> None:
        """Begins to listen anew, on another connection."""
        self._listener.cut()

    def _hear(self, payload: str) -> None:
        """Take a payload for a hint: anybody who can connect can send one, so it is checked and decides
        nothing (G15)."""
        word, _, rest = payload.partition(" ")
        match word:
            case "ready":
                priorities, _, queue = rest.partition(" ")
                for priority in priorities.split(",")[:_MOST_PRIORITIES]:
                    if _is_priority(priority) and _is_name(queue):
                        self._events.ready(Lane(queue, int(priority)))
            case "later":
                self._events.later()
            case "blocked":
                self._events.joined()
            case "room":
                self._events.room(rest if _is_id(rest) else None)
            case "control":
                self._events.control()
            case "open":
                kind, _, name = rest.partition(" ")
                if kind in ("queue", "task") and _is_name(name):
                    self._events.opened(kind, name)
            case "cancel":
                if _is_id(rest):
                    self._events.cancel(rest)
            case "drain":
                self._events.drain(rest)
            case "schedule":
                self._events.scheduled()
            case _:
                pass  # the listener's own voice, or a word of a newer version


def _is_priority(text: str) -> bool:
    return bool(_PRIORITY.fullmatch(text)) and -32_768 <= int(text) <= 32_767


def _is_name(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_NAME


def _is_id(text: str) -> bool:
    return bool(_ID.fullmatch(text))
