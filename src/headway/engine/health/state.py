"""What a worker knows of itself, and what follows from it: whether it is alive, whether it is ready.

The worker's own loop writes what is read here. It is read from another thread (endpoint.py), so that a
loop that is stuck can still be told from one that is not: plain values, each read at once.

Alive means that starting the process anew would not help. A database that is away is no reason to die:
the worker waits for it and goes on by itself. Ready means that it claims jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headway.core.clock import monotonic
from headway.core.duration import in_words
from headway.core.finding import Finding
from headway.engine.health.loop_watch import LoopWatch
from headway.engine.heartbeat import Heartbeat
from headway.engine.jobs.round_trip import Exchange
from headway.engine.running.executor import Executor
from headway.engine.running.job import Running
from headway.engine.service import Service
from headway.engine.track import Course, Track
from headway.store.link import Link

_SLOWEST_TURN = 30.0
"""A heartbeat's turn ends within its lease and this, also while nothing answers: each step has limits."""
_LONGEST_TROUBLE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """A worker at one moment. Ages are seconds."""

    version: str
    schema: str
    worker_id: int
    """0 before it is registered, and after it lost its lease."""
    trusted: bool
    """Its lease holds: it may claim."""
    draining: bool
    listening: bool | None
    """None before it was tried."""
    on_duty: bool
    lease: float
    slots: int
    """All of them, those that queues have to themselves included."""
    dedicated: Mapping[str, tuple[int, int]]
    """Of each queue that has slots to itself: how many, and how many of them are taken."""
    running: int
    unsettled: int
    settled: Mapping[str, int]
    lost: int
    round_trips: int
    """Of claiming and settling, and the seconds they took."""
    round_trip_seconds: float
    loop_age: float
    """Since the event loop last turned."""
    turn_age: float
    """Since the heartbeat's last turn ended, well or not."""
    heartbeat_age: float | None
    """Since the last heartbeat that was answered; none if none was."""
    services: Sequence[Course] = ()
    """How the turns of each service go."""
    blocked: str | None = None
    """What blocks the event loop now: a task, a job and a line of code."""
    blocked_seconds: float = 0.0
    """How long the loop was blocked, all in all; and how often."""
    blocks: int = 0


class Health:
    """Asks the services of a worker how they are. The flags are set by the worker."""

    def __init__(
        self,
        executor: Executor,
        exchange: Exchange,
        heartbeat: Heartbeat,
        link: Link,
        *,
        version: str,
        slots: int,
        lease: float,
    ) -> None:
        """`link` is the one over which the exchange claims and settles."""
        self._executor = executor
        self._exchange = exchange
        self._heartbeat = heartbeat
        self._link = link
        self._version = version
        self._slots = slots
        self.lease = lease
        self._pulse: Service = heartbeat
        self.listening: bool | None = None
        self.on_duty = False
        self.draining = False
        self._services: Sequence[Service] = ()
        self.loop_watch: LoopWatch | None = None

    @property
    def worker_id(self) -> int:
        """The id of the worker; 0 if it has none now."""
        return self._heartbeat.worker_id

    def running(self) -> list[Running]:
        """The jobs under way; from any thread."""
        return list(self._executor.running.values())

    def watch(self, services: list[Service]) -> list[Service]:
        """Keep an eye on these services from now on; return them."""
        self._services = services
        for track in self._tracks():
            track.lease = self.lease
        return services

    def says(self) -> tuple[bool | None, str | None]:
        """Return whether the worker listens, and what is wrong with it; for its row in the database."""
        wrong: list[str] = []
        for track, course in self._courses(monotonic()):
            track.alarm(course)
            if course.unwell_for >= self.lease:
                wrong.append(course.words(named=True))
        return self.listening, storable("; ".join(wrong)) or None

    def begin(self, pulse: Service) -> None:
        """From now on somebody looks; `pulse` is the service that shows that the loop turns."""
        self._pulse = pulse
        self._heartbeat.turned_at = monotonic()  # it is started a little later than this

    def vitals(self) -> Vitals:
        """The worker now; from any thread."""
        heartbeat, settler, now = self._heartbeat, self._exchange.settler, monotonic()
        beaten_at = heartbeat.beaten_at
        age = None if beaten_at is None else max(0.0, now - beaten_at)
        own = self._executor.dedicated
        watch = self.loop_watch
        block = None if watch is None else watch.block
        return Vitals(
            version=self._version,
            schema=self._link.target.schema,
            worker_id=heartbeat.worker_id,
            # A loop that is stuck cannot give its lease up, which is over all the same.
            trusted=self._exchange.worker_id != 0 and age is not None and age <= self.lease,
            draining=self.draining,
            listening=self.listening,
            on_duty=self.on_duty,
            lease=self.lease,
            slots=self._slots,
            dedicated={q: (count, count - self._executor.free_of(q)) for q, count in own.items()},
            running=len(self._executor.running),
            unsettled=settler.unsettled,
            settled=dict(settler.settled),
            lost=settler.lost,
            round_trips=self._link.round_trips,
            round_trip_seconds=self._link.seconds,
            loop_age=max(0.0, now - self._pulse.turned_at),
            turn_age=max(0.0, now - heartbeat.turned_at),
            heartbeat_age=age,
            services=[course for _, course in self._courses(now)],
            blocked=None if block is None else block.cause(code=False),
            blocked_seconds=0.0 if watch is None else watch.seconds,
            blocks=0 if watch is None else watch.blocks,
        )

    def _tracks(self) -> Iterable[Track]:
        return (track for service in self._services for track in service.tracks())

    def _courses(self, now: float) -> Iterable[tuple[Track, Course]]:
        for track in self._tracks():
            course = track.course(now)
            if track is self._exchange.track:
                course = replace(course, busy_for=max(course.busy_for, self._asking_for(now)))
            yield track, course

    def _asking_for(self, now: float) -> float:
        """How long verdicts have waited while no round trip of the exchange was answered."""
        settler = self._exchange.settler
        if settler.unsettled == 0:
            return 0.0
        return max(0.0, now - max(settler.unsettled_since, self._link.answered_at or 0.0))


def storable(trouble: str) -> str:
    """Return a text that any database can store, whatever its encoding is."""
    plain = trouble.replace("\0", "\\0").encode("ascii", "backslashreplace").decode()
    return plain[:_LONGEST_TROUBLE]


def alive(vitals: Vitals) -> list[Finding]:
    """Whether the event loop turns and the heartbeat tries."""
    return [
        _loop(vitals),
        _within("heartbeat", vitals.turn_age, vitals.lease + _SLOWEST_TURN, "tried"),
    ]


def ready(vitals: Vitals) -> list[Finding]:
    """Whether the worker claims jobs, by what it knows itself."""
    return [*alive(vitals), _lease(vitals), _drains(vitals), _listens(vitals), *_work(vitals)]


def is_well(findings: Sequence[Finding]) -> bool:
    """Whether nothing is wrong."""
    return all(finding.status != "wrong" for finding in findings)


def _loop(vitals: Vitals) -> Finding:
    found = _within("event loop", vitals.loop_age, vitals.lease, "turned")
    if vitals.blocked is None:
        return found
    status = "note" if found.status == "ok" else found.status
    return Finding(found.about, status, f"{found.words}; it is blocked {vitals.blocked}")


def _work(vitals: Vitals) -> list[Finding]:
    """The services that do not work; what exactly is wrong, the log says."""
    found: list[Finding] = []
    for course in vitals.services:
        about = f"service {course.service}"
        if course.unwell_for >= vitals.lease:
            found.append(Finding(about, "wrong", course.words(named=False)))
        elif course.failures:
            found.append(Finding(about, "note", course.words(named=False)))
    if not found and vitals.services:
        return [Finding("services", "ok", f"all {len(vitals.services)} work")]
    return found


def _within(about: str, age: float, limit: float, verb: str) -> Finding:
    words = f"{verb} {in_words(age)} ago"
    if age <= limit:
        return Finding(about, "ok", words)
    return Finding(about, "wrong", f"{words}, and should within {in_words(limit)}: it is stuck")


def _lease(vitals: Vitals) -> Finding:
    if vitals.heartbeat_age is None:
        return Finding("lease", "wrong", "not registered yet")
    words = f"the last heartbeat was {in_words(vitals.heartbeat_age)} ago"
    if vitals.heartbeat_age > vitals.lease:
        lease = in_words(vitals.lease)
        return Finding("lease", "wrong", f"{words}, and the lease is {lease}: others get its jobs")
    if vitals.trusted:
        return Finding("lease", "ok", words)
    return Finding("lease", "wrong", f"{words} and the one after it failed: nothing is claimed")


def _drains(vitals: Vitals) -> Finding:
    words = f"{vitals.running} of {vitals.slots} slots taken"
    if vitals.dedicated:
        own = (f"{q}: {taken} of its {count}" for q, (count, taken) in vitals.dedicated.items())
        words += f" ({', '.join(own)})"
    if vitals.draining:
        return Finding("worker", "wrong", f"it drains: {words}, and none is filled again")
    return Finding("worker", "ok", words)


def _listens(vitals: Vitals) -> Finding:
    if vitals.listening is None:
        return Finding("listener", "note", "not tried yet")
    if vitals.listening:
        return Finding("listener", "ok", "hears notifications")
    return Finding("listener", "note", "hears no notifications; it polls")
