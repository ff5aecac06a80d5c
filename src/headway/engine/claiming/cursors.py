"""How far a worker has read each line of its claims.

A lane is an append-only log: a job draws its seq when it becomes ready. So a claim reads after a
cursor and never walks the dead rows before it. A job may commit late, with a seq before the cursor.
A scan finds it, and its line is then read from the start once.

Invariants, which every method keeps:

C1  A claim reads a line after `after(line)`: 0 if the line is unread, else its own cursor, else
    the floor.
C2  Every job of a line at or before its cursor was claimed, was not visible when the line was read,
    or is found again through C3 or C4.
C3  The last scan found ready jobs in every unread line. A line stays unread until a claim gets a job
    of it, or reads it to its end.
C4  A seq that became ready while a claim was under way moves the cursor back before the next claim.
    It does not move it at once: the answer to that claim would move it forward again.
C5  The floor is the newest seq before the last scan. A line without a cursor had no ready job then.
"""

from __future__ import annotations

from collections.abc import Collection, Set

from headway.engine.claiming.lines import ClaimLine


class Cursors:
    """The cursors of one worker, by line. Pure."""

    def __init__(self) -> None:
        self._cursors: dict[ClaimLine, int] = {}
        self._floor = 0
        self._unread: set[ClaimLine] = set()
        self._late: dict[ClaimLine, int] = {}
        """The lowest seq of each line that became ready since the last claim was planned."""

    def after(self, line: ClaimLine) -> int:
        """Return the seq after which a claim reads this line."""
        return 0 if line in self._unread else self._cursors.get(line, self._floor)

    def unread_of(self, lines: Set[ClaimLine]) -> set[ClaimLine]:
        """Return those of these lines that are to be read from their start."""
        return {*(lines & self._unread)}

    def note_late(self, line: ClaimLine, seq: int) -> None:
        """Jobs of this line became ready, from `seq` on: the cursor may be past them."""
        self._late[line] = min(seq, self._late.get(line, seq))

    def step_back(self) -> None:
        """Move the cursors back to what became ready late. Call it before a claim is planned."""
        for line, seq in self._late.items():
            self._cursors[line] = min(self.after(line), seq - 1)
        self._late.clear()

    def claimed(self, line: ClaimLine, seq: int, *, from_start: bool) -> None:
        """A claim got jobs of this line, up to `seq`.

        After a reading from the start the cursor may move back: the line goes on from there.
        """
        if from_start or seq > self.after(line):
            self._cursors[line] = seq
        self._unread.discard(line)

    def reached_end(self, line: ClaimLine) -> None:
        """A claim read an unread line to its end: the rest of it is dead, locked, or for others."""
        if line in self._unread:
            self._unread.discard(line)
            self._cursors[line] = max(self._floor, self._cursors.get(line, 0))

    def scanned(self, found: set[ClaimLine], newest: int, *, active: Collection[ClaimLine]) -> None:
        """Take in a scan: the lines that have ready jobs, and the newest seq before it.

        Only `active` lines keep their cursors. The others start from the floor.
        """
        self._unread = found
        self._floor = newest
        self._cursors = {line: seq for line, seq in self._cursors.items() if line in active}

    def forget_cursors(self) -> None:
        """Forget how far lines were read. Unread and late ones stay so."""
        self._cursors.clear()

    def forget_all(self) -> None:
        """Forget every line, and keep only the floor: the next scan finds what there is."""
        self._cursors.clear()
        self._unread.clear()
        self._late.clear()
