"""Hearing of work: notifications from the database, turned into hints for the others."""

from __future__ import annotations

from collections.abc import Callable

from headway.engine.service import Service, log
from headway.store.connect import Target
from headway.store.listen import Deaf, Listener
from headway.store.rows import Lane

_TRY_AGAIN = 60.0


class Wake(Service):
    """Listens for as long as it can; says so when it cannot, so that others poll instead."""

    waits_long = True

    def __init__(
        self,
        target: Target,
        channel: str,
        *,
        ready: Callable[[Lane | None], None],
        later: Callable[[], None],
        joined: Callable[[], None],
        room: Callable[[str], None],
        control: Callable[[], None],
        opened: Callable[[str, str], None],
        cancel: Callable[[str], None],
        drain: Callable[[str], None],
        scheduled: Callable[[], None],
        listening: Callable[[bool], None],
    ) -> None:
        super().__init__()
        self._listener = Listener(target, channel)
        self._ready = ready
        self._later = later
        self._joined = joined
        self._room = room
        self._control = control
        self._opened = opened
        self._cancel = cancel
        self._drain = drain
        self._scheduled = scheduled
        self._listening = listening

    async def turn(self) -> float | None:
        try:
            await self._listener.open()
            self._listening(True)
            # What was announced while nobody listened must be looked for.
            self._ready(None)
            self._later()
            self._joined()
            self._scheduled()
            async for payload in self._listener.heard():
                self._hear(payload)
            return 0
        except Deaf as deaf:
            log.warning("%s", deaf)
            return _TRY_AGAIN
        finally:
            self._listening(False)
            await self._listener.close()

    def cut(self) -> None:
        """Begins to listen anew, on another connection."""
        self._listener.cut()

    def _hear(self, payload: str) -> None:
        word, _, rest = payload.partition(" ")
        match word:
            case "ready":
                priorities, _, queue = rest.partition(" ")
                for priority in priorities.split(","):
                    if priority.lstrip("-").isdigit():
                        self._ready(Lane(queue, int(priority)))
            case "later":
                self._later()
            case "blocked":
                self._joined()
            case "room":
                self._room(rest)
            case "control":
                self._control()
            case "open":
                kind, _, name = rest.partition(" ")
                self._opened(kind, name)
            case "cancel":
                self._cancel(rest)
            case "drain":
                self._drain(rest)
            case "schedule":
                self._scheduled()
            case _:
                pass  # the listener's own voice, or a word of a newer version
