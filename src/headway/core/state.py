"""The states of a job, the moves between them, and the invariants.

                        enqueue
            ┌──────────────┼──────────────┐
            ▼              ▼              ▼
       SCHEDULED ──────────── promote ► READY ◄─────────────── revive ───────┐
            ▲   └ promote ► BLOCKED ──► │   ▲                                │
            │      (a key)  ▲      admit│   │                                │
            │               └─ unadmit  │   │                                │
            │                         claim │                                │
            │                           ▼   │                                │
            └──── requeue (delay) ──  RUNNING ── requeue (now), rescue       │
                  advance (delay)       │        advance (or BLOCKED)        │
                  rescue (a crash)      │                                    │
                                     finish, rescue                          │
                                        ▼                                    │
              SUCCEEDED      FAILED  CANCELLED  EXPIRED ─────────────────────┘
                       (cancel, purge, expire: from SCHEDULED, READY, BLOCKED, WAITING)

BLOCKED (waits for room under a key) and WAITING (a follow-up waits for its group) are live states like
SCHEDULED. When the group has ended, `gather` leads from WAITING to READY, SCHEDULED or BLOCKED.
Cancel, purge and expire treat all three alike, and transfer moves each to another queue without a
change of state. A job with a key is never READY without room: where the diagram says READY, it becomes
BLOCKED unless it holds room.

Invariants, checked by the model after every command and cited in the SQL:

I1  A job is in exactly one place: one row of `job` while it lives, one row of `archive` after.
I2  A job is RUNNING if and only if its row names a worker.
I3  The claim number grows with every claim and never repeats, through requeues, revivals and
    failovers that forgot some claims.
I4  A write about a running job carries (id, claim number) and changes nothing unless both are
    current and the job is RUNNING.
I5  A claim counts an attempt. A snooze, a return and a crash give it back; crashes have a count of
    their own. While a job runs, 1 <= attempt; it never exceeds max_attempts.
I6  A job that cannot run now is not READY: a SCHEDULED job becomes READY no earlier than its run_at.
I7  A finished job keeps its input; a failed one keeps its error and a row for every attempt.
I8  Only a verdict, a cancellation (or a purge), an expiry or a rescue ends a job.
I9  A job with a key holds room under it while it is READY or RUNNING. An ordered one also holds room
    while it waits for its next attempt or step. No other job holds room. A key never has more holders
    than its limit when room is given, and only `admit` gives room.

Each move is one SQL file in `store/sql/moves`, and no other file writes `state`.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """The state of a job. The row stores the value; people see the name."""

    READY = "r"
    SCHEDULED = "s"
    BLOCKED = "b"
    RUNNING = "x"
    WAITING = "w"
    SUCCEEDED = "d"
    FAILED = "f"
    CANCELLED = "c"
    EXPIRED = "e"

    @property
    def label(self) -> str:
        return self.name.lower()

    @property
    def finished(self) -> bool:
        return self in FINISHED

    @classmethod
    def of_label(cls, label: str) -> State:
        return cls[label.upper()]


LIVE = frozenset({State.READY, State.SCHEDULED, State.BLOCKED, State.RUNNING, State.WAITING})
FINISHED = frozenset(State) - LIVE


class Move(Enum):
    """A legal change of state. The value names its file: `store/sql/moves/<value>.sql`."""

    ENQUEUE = "enqueue"
    CLAIM = "claim"
    FINISH = "finish"
    ADVANCE = "advance"
    ADMIT = "admit"
    UNADMIT = "unadmit"
    REQUEUE = "requeue"
    PROMOTE = "promote"
    CANCEL = "cancel"
    EXPIRE = "expire"
    RESCUE = "rescue"
    REVIVE = "revive"
    PURGE = "purge"
    TRANSFER = "transfer"
    GATHER = "gather"


_PARKED = (State.READY, State.SCHEDULED, State.BLOCKED, State.WAITING)
_WAKES = frozenset({State.READY, State.BLOCKED})
_ENDS = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})

MOVES: dict[Move, dict[State | None, frozenset[State]]] = {
    # From None: the job does not exist yet.
    # To WAITING: the follow-up of a group.
    Move.ENQUEUE: {None: frozenset({State.READY, State.SCHEDULED, State.BLOCKED, State.WAITING})},
    Move.CLAIM: {State.READY: frozenset({State.RUNNING})},
    Move.FINISH: {State.RUNNING: _ENDS},
    Move.ADVANCE: {State.RUNNING: frozenset({State.READY, State.SCHEDULED, State.BLOCKED})},
    Move.ADMIT: {State.BLOCKED: frozenset({State.READY})},
    # The job's queue or task is paused, and other jobs with its key could run.
    Move.UNADMIT: {State.READY: frozenset({State.BLOCKED})},
    # To BLOCKED: the job used a token of its key, and needs another to run again.
    Move.REQUEUE: {State.RUNNING: frozenset({State.READY, State.SCHEDULED, State.BLOCKED})},
    Move.PROMOTE: {State.SCHEDULED: frozenset({State.READY, State.BLOCKED})},
    # A running job, or one that another transaction has locked, only gets a request to stop.
    Move.CANCEL: {
        **{state: frozenset({State.CANCELLED}) for state in _PARKED},
        State.RUNNING: frozenset({State.RUNNING}),
    },
    Move.EXPIRE: {state: frozenset({State.EXPIRED}) for state in _PARKED},
    Move.RESCUE: {State.RUNNING: _WAKES | {State.SCHEDULED, State.FAILED, State.CANCELLED}},
    Move.REVIVE: {
        State.SCHEDULED: _WAKES,
        State.FAILED: _WAKES,
        State.CANCELLED: _WAKES,
        State.EXPIRED: _WAKES,
    },
    Move.PURGE: {state: frozenset({State.CANCELLED}) for state in _PARKED},
    # Only the queue changes.
    Move.TRANSFER: {state: frozenset({state}) for state in _PARKED},
    Move.GATHER: {State.WAITING: frozenset({State.READY, State.SCHEDULED, State.BLOCKED})},
}
"""For each move, the states it may start from and where it may lead. All other pairs change nothing.
`tests/store/test_moves.py` runs every pair against PostgreSQL."""


def leads_to(move: Move, state: State | None) -> frozenset[State]:
    """Return the states to which `move` may take a job in `state`; empty if it may not change it."""
    return MOVES[move].get(state, frozenset())
