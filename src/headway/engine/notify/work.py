"""Listening for work: notifications from the database become hints for the worker's services."""

from __future__ import annotations

import re
from typing import Protocol

from headway.engine.service import Service, log
from headway.store.connections.connect import Target
from headway.store.connections.listen import Listener, NotificationsBlocked
from headway.store.rows import Lane

_TRY_AGAIN = 60.0
_MOST_PRIORITIES = 100
_LONGEST_NAME = 500
_PRIORITY = re.compile(r"-?[0-9]{1,5}")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class WorkEvents(Protocol):
    """The events that a listener passes on. Each is a hint, and decides nothing."""

    def ready(self, lane: Lane | None) -> None:
        """A lane may have ready jobs, or any lane."""

    def scheduled(self) -> None:
        """A job was scheduled."""

    def blocked(self) -> None:
        """A job joined the line of a key."""

    def room(self, job_id: str | None) -> None:
        """The key of this job may have room, or any key."""

    def controls_changed(self) -> None:
        """A pause or a limit has changed."""

    def limit_opened(self, kind: str, name: str) -> None:
        """There may be room under a limit."""

    def cancel(self, job_id: str) -> None:
        """A job may have been asked to stop."""

    def drain(self, worker: str) -> None:
        """A worker may have been asked to drain."""

    def gather(self, job_id: str) -> None:
        """The group of this follow-up may have ended."""

    def schedule_changed(self) -> None:
        """A schedule has changed."""

    def listening(self, listening: bool) -> None:
        """Notifications arrive, or do not arrive."""


class WorkListener(Service):
    """Listens for as long as it can. It says when it cannot, so that services poll instead."""

    waits_long = True

    def __init__(self, target: Target, channel: str, events: WorkEvents) -> None:
        super().__init__()
        self._listener = Listener(target, channel)
        self._events = events

    async def turn(self) -> float | None:
        try:
            await self._listener.open()
            self.track.works()
            self._events.listening(True)
            # Notifications from before are lost, so every service has to check.
            self._events.ready(None)
            self._events.scheduled()
            self._events.blocked()
            self._events.schedule_changed()
            async for payload in self._listener.heard():
                self._dispatch(payload)
            return 0
        except NotificationsBlocked as error:
            log.warning("%s", error)
            return _TRY_AGAIN
        finally:
            self._events.listening(False)
            await self._listener.close()

    def cut(self) -> None:
        """Listen again, on another connection."""
        self._listener.cut()

    def _dispatch(self, payload: str) -> None:
        """Turn a payload into a hint. Anybody who can connect can send one, so it is checked, and it
        decides nothing (G15)."""
        word, _, rest = payload.partition(" ")
        match word:
            case "ready":
                priorities, _, queue = rest.partition(" ")
                for priority in priorities.split(",")[:_MOST_PRIORITIES]:
                    if _is_priority(priority) and _is_name(queue):
                        self._events.ready(Lane(queue, int(priority)))
            case "later":
                self._events.scheduled()
            case "blocked":
                self._events.blocked()
            case "room":
                self._events.room(rest if _is_id(rest) else None)
            case "control":
                self._events.controls_changed()
            case "open":
                kind, _, name = rest.partition(" ")
                if kind in ("queue", "task") and _is_name(name):
                    self._events.limit_opened(kind, name)
            case "cancel":
                if _is_id(rest):
                    self._events.cancel(rest)
            case "drain":
                self._events.drain(rest)
            case "gather":
                if _is_id(rest):
                    self._events.gather(rest)
            case "schedule":
                self._events.schedule_changed()
            case _:
                pass  # the listener's own test, or a word of a newer version


def _is_priority(text: str) -> bool:
    return bool(_PRIORITY.fullmatch(text)) and -32_768 <= int(text) <= 32_767


def _is_name(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_NAME


def _is_id(text: str) -> bool:
    return bool(_ID.fullmatch(text))
