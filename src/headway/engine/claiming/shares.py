"""Divides the free slots of a worker: queues get shares by weight, and each asks its lines in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headway.engine.claiming.cursors import Cursors
from headway.engine.claiming.fair_share import FairShare
from headway.engine.claiming.lines import ClaimLine, ClaimLines
from headway.store.documents import Ask, Share


class Shares:
    """Makes the shares of one claim after another."""

    def __init__(
        self,
        fair_share: FairShare,
        lines: ClaimLines,
        cursors: Cursors,
        slots_of: Mapping[str, int],
    ) -> None:
        """`slots_of` is for handlers that have slots of their own."""
        self._fair_share = fair_share
        self._lines = lines
        self._cursors = cursors
        self._slots_of = slots_of

    def of(
        self, room: int, rooms: Mapping[str, int], running_of: Callable[[str], int]
    ) -> list[Share]:
        """Return the shares for `room` shared slots, and for the `rooms` of dedicated queues."""
        own_room = {own: slots - running_of(own) for own, slots in self._slots_of.items()}
        asked: set[str] = set()
        active = self._lines.active

        def able(queue: str) -> bool:
            return queue not in rooms and (
                not own_room or any(own_room.get(own or "", 1) > 0 for _, _, own in active[queue])
            )

        wanted = [
            *self._fair_share.shares(room, able),
            *((queue, most) for queue, most in rooms.items() if most > 0 and queue in active),
        ]
        # A claim asks for a handler that has its own line in one queue only, so queues take turns.
        if rooms:
            wanted.sort(key=lambda share: self._fair_share.clock(share[0]))
        shares = [
            Share(queue, most, self._asks(queue, most, own_room, asked)) for queue, most in wanted
        ]
        return [share for share in shares if share.lines]

    def _asks(
        self, queue: str, room: int, own_room: Mapping[str, int], asked: set[str]
    ) -> list[Ask]:
        asks: list[Ask] = []
        skipped: int | None = None
        for line in self._lines.in_order(queue):
            _, priority, own = line
            if skipped is not None and priority < skipped:
                break  # a line above waits for the next claim, and nothing may overtake it
            most = min(room, own_room.get(own or "", room))
            if most <= 0:
                continue
            if own in asked:
                skipped = priority
                continue
            if own is not None:
                asked.add(own)
            handlers = self._lines.together if own is None else (own,)
            asks.append(Ask(priority, self._cursors.after(line), most, handlers, own is not None))
        return asks


def line_of(share: Share, ask: Ask) -> ClaimLine:
    """Return the line that a claim asks for."""
    return share.queue, ask.priority, ask.handlers[0] if ask.alone else None
