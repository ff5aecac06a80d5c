"""The promises of pauses and limits, checked against the database. The model has no part in it.

A limit that is lowered stops nobody, so what is checked is that nothing grows beyond what is said now.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from headway.core.state import State
from headway.store.rows import Claim
from tests.model.invariants import Row, Snapshot, handler

_SLACK = 1e-6
_FREES_ROOM = {"cancel", "expire", "purge", "rescue"}
"""Those who hand no room on themselves: they ring for it."""


class _Numbers(NamedTuple):
    """The jobs under a limit or key. `most` is None for any number."""

    most: int | None
    rate: float | None = None
    burst: int | None = None


@dataclass
class Bounds:
    """Looks at one snapshot after another."""

    before: Snapshot | None = None
    _starts: dict[tuple[str, str], list[datetime]] = field(default_factory=dict)
    """Under each limit with a rate: every start since its numbers were set."""
    _rates: dict[tuple[str, str], Any] = field(default_factory=dict)

    def claimed(self, claim: Claim, now: datetime) -> None:
        for name in (("queue", claim.queue), ("task", claim.handler)):
            if name in self._rates:
                self._starts.setdefault(name, []).append(now)

    def check(self, seen: Snapshot, now: datetime, command: str, heard: Collection[str]) -> None:
        before = self.before or seen
        self.paused(before, seen, now)
        self.running(before, seen)
        self.rates(seen, now)
        self.holding(before, seen)
        self.tokens(before, seen, now)
        if command == "admit":
            self.let_in(seen, now)
        if command in _FREES_ROOM:
            self.check_hints(before, seen, command, heard)
        if _said(before, now) != _said(seen, now) and command not in ("claim", "settle"):
            assert "control" in heard, f"{command} changed what is said, and told nobody"
        self.before = seen

    def paused(self, before: Snapshot, seen: Snapshot, now: datetime) -> None:
        """No paused job is claimed or admitted."""
        for job_id, row in seen.live.items():
            old = before.live.get(job_id)
            names = [("queue", row["queue"]), ("task", handler(row)), ("task", row["task"])]
            names.append(("key", row["key"]))
            if row["state"] is State.RUNNING and (old is None or old["claim"] < row["claim"]):
                stopped = [name for name in names if seen.paused(*name, now)]
                assert not stopped, f"it was claimed while {stopped} were paused"
            if row["state"] is State.READY and old and old["state"] is State.BLOCKED:
                assert not seen.paused(*names[-1], now), (
                    "it was admitted under a key that is paused"
                )
                assert row["ordered"] or not seen.shut(row, now), "it was admitted and cannot run"

    def running(self, before: Snapshot, seen: Snapshot) -> None:
        """Never more under a queue or task than its limit; all that run count."""
        for name, row in seen.controls.items():
            if name[0] in ("queue", "task") and row["concurrency"] is not None:
                most = max(row["concurrency"], before.running(*name))
                assert seen.running(*name) <= most, f"more run under {name} than may"

    def rates(self, seen: Snapshot, now: datetime) -> None:
        """In every time that ends now, no more starts than it earned, and a burst."""
        said = {
            name: (row["rate"], row["burst"], row["changed_at"])
            for name, row in seen.controls.items()
            if row["rate"] is not None
        }
        for name in {*said, *self._rates}:
            if said.get(name) != self._rates.get(name):
                self._starts.pop(name, None)
        self._rates = said
        for name, moments in self._starts.items():
            rate, burst, _ = said[name]
            for number, moment in enumerate(reversed(moments), start=1):
                earned = burst + rate * (now - moment).total_seconds()
                assert number <= earned + _SLACK, f"{name} started more than it earned"

    def holding(self, before: Snapshot, seen: Snapshot) -> None:
        """I9: nobody is given room while as many as may hold some."""
        for key in {row["key"] for row in seen.live.values() if row["holds"]}:
            under = next(row for row in seen.live.values() if row["key"] == key and row["holds"])
            most = _numbers(seen, under).most
            if most is not None:
                allowed = max(most, before.holding(key))
                assert seen.holding(key) <= allowed, "I9: more hold than may"

    def tokens(self, before: Snapshot, seen: Snapshot, now: datetime) -> None:
        """Nobody takes a token that is not there: no debt grows beyond a burst."""
        for name, row in seen.controls.items():
            if row["rate"] is not None and row["spent_until"] is not None:
                old = before.controls.get(name, row)["spent_until"]
                if row["spent_until"] != old:
                    _in_time(row["spent_until"], row["burst"] / row["rate"], now)
        for row in seen.live.values():
            numbers = _numbers(seen, row)
            if numbers.rate and numbers.burst:
                # Jobs that were ready when the rate was set, or lowered, exceed it until they run.
                beyond = [_beyond(numbers, row["key"], then, now) for then in (before, seen)]
                assert beyond[1] <= max(0, beyond[0]) + _SLACK, "ready without a token"

    def let_in(self, seen: Snapshot, now: datetime) -> None:
        """After a scan of every line no job waits that could run."""
        for key, line in seen.lines().items():
            able = [row for row in line if row["ordered"] or not seen.shut(row, now)]
            if not able:
                continue
            numbers = _numbers(seen, able[0])
            room = numbers.most is None or seen.holding(key) < numbers.most
            if numbers.rate and numbers.burst:
                room &= _beyond(numbers, key, seen, now) + 1 <= _SLACK
            assert not room or seen.paused("key", key, now), "I9: there was room, and one waits"

    def check_hints(
        self, before: Snapshot, seen: Snapshot, command: str, heard: Collection[str]
    ) -> None:
        """A session that frees room notifies those that wait for it."""
        for key in seen.lines():
            if seen.holding(key) < before.holding(key):
                # Keys are not for everybody to hear: it names a job that has the key, or had it.
                of_key = {f"room {id_}" for id_, row in before.live.items() if row["key"] == key}
                told = {"room", "blocked", *of_key} & {*heard}
                assert told, f"{command} kept room of {key}"
        for (kind, name), row in seen.controls.items():
            limited = kind in ("queue", "task") and row["concurrency"] is not None
            if limited and seen.running(kind, name) < before.running(kind, name):
                assert f"open {kind} {name}" in heard, f"{command} kept room of {kind} {name}"


def _numbers(seen: Snapshot, row: Row) -> _Numbers:
    if row["key"] is None or row["key_limit"]:
        return _Numbers(row["key_limit"])
    said = seen.controls.get(("keys", handler(row)))
    return (
        _Numbers(None)
        if said is None
        else _Numbers(said["concurrency"], said["rate"], said["burst"])
    )


def _said(seen: Snapshot, now: datetime) -> dict[tuple[str, str], Row]:
    """Without what is left of pauses that are over."""
    about = ("concurrency", "rate", "declared", "changed_at")
    return {
        name: row
        for name, row in seen.controls.items()
        if seen.paused(*name, now) or any(row[part] is not None for part in about)
    }


def _beyond(numbers: _Numbers, key: str, seen: Snapshot, now: datetime) -> float:
    """Return by how much ready jobs, and the tokens that starts have taken, exceed a burst."""
    assert numbers.rate
    assert numbers.burst
    debt = max(0.0, (seen.spent.get(key, now) - now).total_seconds()) * numbers.rate
    return seen.ready(key) + debt - numbers.burst


def _in_time(spent_until: datetime, seconds: float, now: datetime) -> None:
    ahead = (spent_until - now).total_seconds()
    assert ahead <= seconds + 0.001, "a token was taken that was not there"
