"""One history: which message goes on next, and how, until everything has ended. And all of them.

The plain history delivers every message at once, the oldest first, and lets a handler end when
nothing else is under way. Each departure from that is a fault, and a history has a bounded number of
them. So the histories with one fault, or two, among the first messages can all be tried.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.scripted.stage import SLOTS, Stage
from tests.scripted.wire import Message

DELIVER = "deliver"
LOSE_REPLY = "lose reply"
"""The server carries it out, and the connection is cut."""
LOSE_REQUEST = "lose request"
"""The connection is cut before the server has it."""
LATE = "late"
"""The connection is cut, and the server carries it out later all the same."""
OUTAGE = "outage"
"""The server carries it out and is then away for longer than every constant of the engine."""
UNSEEN = "outage between beats"
"""The same, so that no heartbeat falls into it."""
FORGET = "forget"
"""The server carries it out and replies; then another server takes over that knows nothing of it."""
HOLD = ("hold 1", "hold 2", "hold 4")
"""The server carries it out; this many other steps happen before the reply arrives."""
DELAY = ("delay 2", "delay 4")
"""This many other steps happen before the server has it."""
LONG_DELAY = ("delay 6", "delay 8", "delay 10")
"""The same, for single tests."""
WAYS = (*HOLD, *DELAY, LOSE_REPLY, LOSE_REQUEST, LATE, OUTAGE, UNSEEN)

_OUTAGE = 100.0
_IDLE = 25.0
_MOST_IDLE = 100
_MOST_TOLD = 40
_CLAIMS = {"moves/claim", "moves/claim_plain"}
_WRITES = {"moves/finish", "moves/advance", "moves/requeue", "moves/admit"}

Choose = Callable[[int], int]
"""Given how many choices there are, returns one of them; 0 is the plain one."""


@dataclass(frozen=True)
class Expected:
    """How a job must end."""

    id: str
    states: Collection[str] = ("succeeded",)
    runs: int | None = 1
    """How often each handler of it is to run, unless claims were forgotten; none: any number."""


Setup = Callable[[Stage], Awaitable[Sequence[Expected]]]
"""Makes the jobs of a history."""


@dataclass
class History:
    """Plays one history and checks what it came to."""

    stage: Stage
    choose: Choose
    ways: Sequence[str] = WAYS
    faults: int = 1
    """The most departures from the plain history."""
    within: int = 8
    """The number of first steps in which faults may happen."""
    prompt: bool = False
    """Whether the plain history is to end without a rest."""
    told: list[str] = field(default_factory=list[str])
    """The choices, in words."""
    waited: int = 0
    """How often nothing was left to do but to wait."""
    _late: list[Message] = field(default_factory=list[Message])
    _away_until: float | None = None
    _steps: int = 0

    async def play(self, setup: Setup) -> None:
        """Run it to its end. Raises AssertionError, with the history, if something does not hold."""
        stage = self.stage
        await stage.begin()
        stage.wire.scripted = True
        expected = await setup(stage)
        stage.look()
        try:
            await self._drive(expected)
            self._check(expected)
        except AssertionError as error:
            raise AssertionError(
                f"{error}\n  after: " + "\n         ".join(self.told[:_MOST_TOLD])
            ) from None

    @property
    def faulty(self) -> bool:
        """Whether anything but the plain was chosen."""
        return any(not words.startswith(DELIVER) for words in self.told)

    async def _drive(self, expected: Sequence[Expected]) -> None:
        while True:
            await self.stage.quiet()
            if self.stage.wire.sent:
                await self._step()
            elif self.stage.wire.held:
                await self._release(self.stage.wire.held[0])
            elif self._late:
                await self._late.pop(0).carry_out()
            elif self._ended(expected):
                return
            else:
                self._wait()

    async def _step(self) -> None:
        sent = self.stage.wire.sent
        sent.sort(key=lambda message: (message.service == "handler", message.number))
        options = [(sent[0], DELIVER)]
        if self.faults > 0 and self._steps < self.within:
            options += [(sent[0], way) for way in self._ways_of(sent[0])]
            options += [(message, DELIVER) for message in sent[1:]]
        choice = self.choose(len(options)) if len(options) > 1 else 0
        self.faults -= choice > 0
        self._steps += 1
        message, way = options[choice]
        self.told.append(f"{way}{' first' if choice and way == DELIVER else ''}: {message!r}")
        await self._act(message, way)
        self.told[-1] += message.note
        for held in list(self.stage.wire.held):
            held.holds -= held is not message
            if held.holds <= 0:
                await self._release(held)

    def _ways_of(self, message: Message) -> Sequence[str]:
        if message.service == "handler":
            return ()
        about = {*message.about}
        only_claims = bool(_CLAIMS & about) and not _WRITES & about
        return [way for way in self.ways if way != FORGET or only_claims]

    async def _release(self, message: Message) -> None:
        if not message.carried_out:
            await message.carry_out()
        message.deliver()

    async def _act(self, message: Message, way: str) -> None:
        wire = self.stage.wire
        before = self._claimable() if way == FORGET else []
        if way == LATE:
            self._late.append(message)
        elif way not in (LOSE_REQUEST, *DELAY, *LONG_DELAY):
            await message.carry_out()
        if way in (DELIVER, FORGET):
            message.deliver()
        elif way in (*HOLD, *DELAY, *LONG_DELAY):
            message.holds = int(way.split()[1])
            wire.sent.remove(message)
            wire.held.append(message)
        else:
            message.lose()
        if way == FORGET:
            self._forget(before)
        elif way in (OUTAGE, UNSEEN):
            wire.away = True
            if way == OUTAGE:
                self.stage.worker._upkeep.heartbeat.wake()
            self._away_until = self.stage.timeline.monotonic() + _OUTAGE
            for other in [*wire.sent, *wire.held]:
                if other.service not in ("handler", "commit"):
                    other.lose()

    def _wait(self) -> None:
        """Let time pass until somebody has something to do."""
        self.waited += 1
        assert self.waited < _MOST_IDLE, "something never ends"
        timeline = self.stage.timeline
        timeline.advance(max(_IDLE, timeline.until_next()))
        if self._away_until is not None and timeline.monotonic() >= self._away_until:
            self._away_until, self.stage.wire.away = None, False

    def _claimable(self) -> list[tuple[Any, ...]]:
        return self.stage.db.execute(
            "select id, claim, attempt from job where state = 'r'"
        ).fetchall()

    def _forget(self, before: list[tuple[Any, ...]]) -> None:
        for job, claim, attempt in before:
            self.stage.db.execute(
                """update job set state = 'r', claim = %s, attempt = %s, worker_id = null
                   where id = %s and state = 'x'""",
                [claim, attempt, job],
            )

    # -- what must hold ---------------------------------------------------------------------------

    def _ended(self, expected: Sequence[Expected]) -> bool:
        """Whether all jobs have ended, and the worker looks for none of them any more."""
        job_loop = self.stage.worker._job_loop
        if self._away_until is not None or job_loop._orphans.are_possible:
            return False
        living = "select 1 from job where id = any (%s::uuid[])"
        alive = self.stage.db.execute(living, [[one.id for one in expected]]).fetchall()
        return not alive and job_loop.settler.unsettled == 0

    def _check(self, expected: Sequence[Expected]) -> None:
        stage, worker = self.stage, self.stage.worker
        ended = "select id::text, state from jobs where id = any (%s::uuid[])"
        states: dict[str, list[str]] = {one.id: [] for one in expected}
        for job, state in stage.db.execute(ended, [[*states]]):
            states[job].append(state)
        forgot = any(words.startswith(FORGET) for words in self.told)
        for one in expected:
            assert len(states[one.id]) == 1, f"{one} ended as {states[one.id]}"
            assert states[one.id][0] in one.states, f"{one} ended as {states[one.id]}"
            runs = {step: n for (job, step), n in stage.runs.items() if job == one.id}
            if one.runs is not None and not forgot:
                assert {*runs.values()} == {one.runs}, f"{one} ran {runs}"
        assert set(stage.claims.values()) <= {1}, f"a claim ran twice: {stage.claims}"
        settler, executor = worker._job_loop.settler, worker._running.executor
        keys = worker._claiming.keys
        assert settler.unsettled == 0
        assert settler.unsettled_claims() == []
        assert not executor.running
        assert executor.free() == SLOTS
        assert not keys._freed
        assert not keys._parallel
        if self.prompt and not self.faulty:
            assert self.waited == 0, "the worker rested although there was something to do"


class Every:
    """Tries every choice, as an odometer does."""

    def __init__(self) -> None:
        self._path: list[int] = []
        self._taken: list[tuple[int, int]] = []
        self.histories = 0

    def choose(self, count: int) -> int:
        """Return the choice that this history makes here."""
        step = len(self._taken)
        choice = self._path[step] if step < len(self._path) else 0
        assert choice < count, "the same choices did not lead to the same history"
        self._taken.append((choice, count))
        return choice

    def next(self) -> bool:
        """Go on to the next history. Return false after the last one."""
        self.histories += 1
        while self._taken and self._taken[-1][0] + 1 == self._taken[-1][1]:
            self._taken.pop()
        self._path = [choice for choice, _ in self._taken]
        self._taken = []
        if not self._path:
            return False
        self._path[-1] += 1
        return True


async def play_all(stage: Stage, setup: Setup, **bounds: Any) -> int:
    """Play every history within these bounds. Returns how many there were."""
    every = Every()
    while True:
        await History(stage, every.choose, **bounds).play(setup)
        if not every.next():
            return every.histories
