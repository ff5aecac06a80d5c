"""I1 to I9 of core/state.py, each as a check of what the database says. The model has no part in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from headway.core import codec
from headway.core.state import State
from headway.store.rows import Claim
from tests.store.store import CONTROLS, Store

Row = dict[str, Any]
_ENDING = {"settle", "cancel", "expire", "rescue", "purge"}
_GIVEN_BACK = {"WorkerLost", "ProcessDied"}
"""Errors of attempts that a job need not have caused."""


@dataclass
class Snapshot:
    """All rows, read in one transaction."""

    live: dict[str, Row]
    archived: dict[str, Row]
    attempts: list[Row]
    archived_rows: int
    controls: dict[tuple[str, str], Row]
    asked: list[str]
    """The jobs of all requests to stop."""
    unkept: set[str]
    """Jobs that ended and were not kept."""
    spent: dict[str, datetime]
    """Of keys with a rate: when all tokens that starts have taken will have been earned."""

    @classmethod
    def take(cls, store: Store) -> Snapshot:
        with store.eyes.transaction():
            store.eyes.execute("set transaction isolation level repeatable read")
            live = store.rows("select *, state::text as letter from job")
            archived = store.rows("select *, state::text as letter from archive")
            attempts = store.rows("select *, outcome::text as letter from attempt")
            controls = store.rows(CONTROLS)
            buckets = store.rows("select * from bucket")
            starts = store.rows("select * from start order by started_at")
            asked = store.rows("select job_id::text from stop_request order by job_id")
            unkept = store.rows("select id::text from unkept")
        return cls(
            _by_id(live),
            _by_id(archived),
            attempts,
            len(archived),
            {(row["kind"], row["name"]): row for row in controls},
            [row["job_id"] for row in asked],
            {row["id"] for row in unkept},
            _spent(controls, buckets, starts),
        )

    def running(self, kind: str, name: str) -> int:
        """Return how many jobs of a queue or a handler run, whatever their settings are."""
        rows = [row for row in self.live.values() if row["state"] is State.RUNNING]
        return sum((row["queue"] if kind == "queue" else handler(row)) == name for row in rows)

    def holding(self, key: str) -> int:
        return sum(row["holds"] for row in self.live.values() if row["key"] == key)

    def ready(self, key: str) -> int:
        rows = [row for row in self.live.values() if row["key"] == key]
        return sum(row["state"] is State.READY for row in rows)

    def lines(self) -> dict[str, list[Row]]:
        """Those who wait for room, by their key."""
        found: dict[str, list[Row]] = {}
        for row in self.live.values():
            if row["state"] is State.BLOCKED:
                found.setdefault(row["key"], []).append(row)
        return found

    def paused(self, kind: str, name: str, now: datetime) -> bool:
        row = self.controls.get((kind, name))
        if row is None or row["paused_at"] is None:
            return False
        return row["paused_until"] is None or row["paused_until"] > now

    def shut(self, row: Row, now: datetime) -> bool:
        """Whether its queue or task is paused, or limited to none."""
        limits = [("queue", row["queue"]), ("task", handler(row))]
        if any(self.paused(*name, now) for name in [*limits, ("task", row["task"])]):
            return True
        said = [self.controls[name] for name in limits if name in self.controls]
        return any(row["concurrency"] == 0 for row in said)


def handler(row: Row) -> str:
    return f"{row['task']}/{row['step']}" if row["step"] else row["task"]


def _spent(controls: list[Row], buckets: list[Row], starts: list[Row]) -> dict[str, datetime]:
    """Return the sum in the bucket, with each start that it does not contain yet."""
    rates = {row["rated_in"]: row["rate"] for row in controls if row["kind"] == "keys"}
    found = {
        row["key"]: row["spent_until"]
        for row in buckets
        if rates.get(row["rated_in"]) and not row["key"].startswith("\x1f")  # a queue's or task's
    }
    for row in starts:
        if rate := rates.get(row["rated_in"]):
            until = found.get(row["key"], row["started_at"])
            if row["count"] > 0:
                until = max(until, row["started_at"])
            found[row["key"]] = until + timedelta(seconds=row["count"] / rate)
    return found


def _by_id(rows: list[Row]) -> dict[str, Row]:
    return {str(row["id"]): row | {"state": State(row["letter"])} for row in rows}


@dataclass
class Invariants:
    """Looks at one snapshot after another."""

    inputs: dict[str, Any] = field(default_factory=dict)
    """The input that every job has that was enqueued and committed."""
    highest: dict[str, int] = field(default_factory=dict)
    """The highest claim number seen of each job."""
    ended: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    """Jobs that were not kept and whose ids have been swept away."""
    visited: dict[tuple[str, str], Any] = field(default_factory=dict)
    """The input that a job had when it was last at a step that it left."""
    life_began: dict[str, int] = field(default_factory=dict)
    """The claim number at which a revived job began its newest life, or a flow's its newest step."""

    def check(self, seen: Snapshot, now: datetime, command: str) -> None:
        self.i1(seen)
        self.i2(seen)
        self.i3(seen)
        self.i5(seen)
        self.i6(seen, now)
        self.i7(seen)
        self.i8(seen, command)
        self.i9(seen)
        self.unique(seen)

    def moved(self, claim: Claim, input_: bytes) -> None:
        """A job went on to a step with this input, where its attempts start from zero."""
        self.left(claim.id, claim.step)
        self.inputs[claim.id] = codec.decode(input_)
        self.life_began[claim.id] = claim.number

    def left(self, job_id: str, step: str) -> None:
        """A job left a step that it can go back to, with the input that it has."""
        self.visited[job_id, step] = self.inputs[job_id]

    def revived(self, job_id: str, went_back_to: str | None) -> None:
        """A job that had ended lives again, maybe at an earlier step."""
        self.life_began[job_id] = self.highest.get(job_id, 0)
        if went_back_to is not None:
            self.inputs[job_id] = self.visited[job_id, went_back_to]

    def claimed(self, claim: Claim) -> None:
        """I3, for every claim that is handed out."""
        before = self.highest.get(claim.id, 0)
        assert claim.number >> 32 == (before >> 32) + 1, "I3: claims are not counted"
        assert claim.number << 32 != before << 32, "I3: a claim that was forgotten would come again"
        self.highest[claim.id] = claim.number

    def i1(self, seen: Snapshot) -> None:
        assert not seen.live.keys() & seen.archived.keys(), "I1: in two places"
        assert seen.archived_rows == len(seen.archived), "I1: archived twice"
        there = seen.live.keys() | seen.archived.keys()
        assert not there & seen.unkept, "I1: there, and not kept"
        known = self.inputs.keys() - self.forgotten
        assert there | seen.unkept == known, "I1: lost, or made up"
        assert all(not row["state"].finished for row in seen.live.values()), (
            "I1: lives and has ended"
        )
        assert all(row["state"].finished for row in seen.archived.values()), "I1: ended and lives"

    def i2(self, seen: Snapshot) -> None:
        for row in seen.live.values():
            running = row["state"] is State.RUNNING
            assert running == (row["worker_id"] is not None), "I2: running without a worker, or not"

    def i3(self, seen: Snapshot) -> None:
        for job_id, row in (seen.live | seen.archived).items():
            assert row["claim"] == self.highest.get(job_id, 0), "I3: not the number last handed out"

    def i5(self, seen: Snapshot) -> None:
        for row in (seen.live | seen.archived).values():
            least = 1 if row["state"] is State.RUNNING else 0
            assert least <= row["attempt"] <= row["max_attempts"], "I5: attempts out of bounds"

    def i6(self, seen: Snapshot, now: datetime) -> None:
        for row in seen.live.values():
            if row["state"] is State.READY:
                assert row["run_at"] <= now, "I6: ready before its time"

    def i7(self, seen: Snapshot) -> None:
        for job_id, row in seen.archived.items():
            assert row["input"] == self.inputs[job_id], "I7: its input was not kept"
            if row["state"] is State.FAILED:
                assert row["error"], "I7: failed without an error"
                since = self.life_began.get(job_id, 0)
                told = [
                    a for a in seen.attempts if str(a["job_id"]) == job_id and a["claim"] > since
                ]
                told.sort(key=lambda attempt: attempt["claim"])
                last = {attempt["attempt"]: attempt for attempt in told}
                assert sorted(last) == list(range(1, row["attempt"] + 1)), (
                    "I7: an attempt has no row"
                )
                again = [attempt for attempt in told if attempt is not last[attempt["attempt"]]]
                assert all(attempt["error"]["type"] in _GIVEN_BACK for attempt in again), (
                    "I5: an attempt was given back, and nobody was lost"
                )

    def i8(self, seen: Snapshot, command: str) -> None:
        ended = (seen.archived.keys() | seen.unkept) - self.ended
        assert not ended or command in _ENDING, f"I8: {command} ended {ended}"
        self.ended = seen.archived.keys() | seen.unkept

    def i9(self, seen: Snapshot) -> None:
        """How many hold room is for `Bounds` to say: it depends on what was said when they got it."""
        for row in seen.live.values():
            if row["key"] is None:
                assert not row["holds"], "I9: room without a key"
                assert row["state"] is not State.BLOCKED, (
                    "I9: it waits for room that it does not need"
                )
            elif row["state"] in (State.READY, State.RUNNING):
                assert row["holds"], "I9: it could run without room"
            else:
                keeps_room = row["state"] is State.SCHEDULED and row["ordered"]
                assert keeps_room or not row["holds"], "I9: it waits and keeps room from others"

    def unique(self, seen: Snapshot) -> None:
        having = [
            (row["task"], row["unique_key"])
            for row in seen.live.values()
            if row["unique_key"] and not (row["until_claimed"] and row["claim"])
        ]
        assert len(set(having)) == len(having), "two have the same unique key"
