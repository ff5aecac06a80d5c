"""The state of a worker, and whether it is alive and ready.

The worker's own loop writes the values, and another thread (endpoint.py) reads them, so a blocked loop
can be detected. They are plain values, each read at once.

A worker is alive unless a restart would help. An unreachable database is not a reason to restart: the
worker waits for it and goes on by itself. A worker is ready if it claims jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headway.core.clock import monotonic
from headway.core.duration import in_words
from headway.core.finding import Finding
from headway.engine.health.loop_watch import LoopWatch
from headway.engine.heartbeat import Heartbeat
from headway.engine.jobs.loop import JobLoop
from headway.engine.running.executor import Executor
from headway.engine.running.job import RunningJob
from headway.engine.service import Service
from headway.engine.service_status import ServiceStatus, StatusTracker
from headway.store.connections.engine_connection import EngineConnection

_SLOWEST_TURN = 30.0
"""A turn of the heartbeat ends within its lease plus this, even without answers: each step is limited."""
_LONGEST_TROUBLE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """A worker at one moment. Ages are seconds."""

    version: str
    schema: str
    worker_id: int
    """0 before it is registered, and after it lost its lease."""
    trusted: bool
    """Whether its lease holds, so it may claim."""
    draining: bool
    listening: bool | None
    """None before the first try to listen."""
    leads: bool
    lease: float
    slots: int
    """All slots, including dedicated ones."""
    dedicated: Mapping[str, tuple[int, int]]
    """For each queue with dedicated slots: how many there are, and how many are taken."""
    running: int
    unsettled: int
    settled: Mapping[str, int]
    lost: int
    round_trips: int
    """Round trips that claim and settle jobs."""
    round_trip_seconds: float
    """How long they took together."""
    loop_age: float
    """Since the event loop last ran."""
    turn_age: float
    """Since the heartbeat's last turn ended, successfully or not."""
    heartbeat_age: float | None
    """Since the last answered heartbeat, or None."""
    services: Sequence[ServiceStatus] = ()
    """The status of each service."""
    blocked: str | None = None
    """The cause if the event loop is blocked now: a task, a job and a line of code."""
    blocked_seconds: float = 0.0
    """How long the loop was blocked in total."""
    blocks: int = 0
    """How often the loop was blocked."""


class Health:
    """Collects the state of a worker's services. The worker sets the flags."""

    def __init__(
        self,
        executor: Executor,
        job_loop: JobLoop,
        heartbeat: Heartbeat,
        link: EngineConnection,
        *,
        version: str,
        slots: int,
        lease: float,
    ) -> None:
        """`link` is the connection that claims and settles jobs."""
        self._executor = executor
        self._job_loop = job_loop
        self._heartbeat = heartbeat
        self._link = link
        self._version = version
        self._slots = slots
        self.lease = lease
        self._liveness: Service = heartbeat
        self.listening: bool | None = None
        self.leads = False
        self.draining = False
        self._services: Sequence[Service] = ()
        self.loop_watch: LoopWatch | None = None

    @property
    def worker_id(self) -> int:
        """The id of the worker, or 0 if it has none now."""
        return self._heartbeat.worker_id

    def running(self) -> list[RunningJob]:
        """Return the running jobs. Any thread may call it."""
        return list(self._executor.running.values())

    def watch(self, services: list[Service]) -> list[Service]:
        """Watch these services from now on, and return them."""
        self._services = services
        for track in self._tracks():
            track.lease = self.lease
        return services

    def says(self) -> tuple[bool | None, str | None]:
        """Return whether the worker listens, and its problems, for its row in the database."""
        wrong: list[str] = []
        for track, status in self._statuses(monotonic()):
            track.alarm(status)
            if status.unwell_for >= self.lease:
                wrong.append(status.words(named=True))
        return self.listening, storable("; ".join(wrong)) or None

    def begin(self, liveness: Service) -> None:
        """Start to measure ages. `liveness` is the service that shows that the loop runs."""
        self._liveness = liveness
        self._heartbeat.turned_at = monotonic()  # the heartbeat starts a little later than this

    def vitals(self) -> Vitals:
        """Return the worker's state now. Any thread may call it."""
        heartbeat, settler, now = self._heartbeat, self._job_loop.settler, monotonic()
        beaten_at = heartbeat.beaten_at
        age = None if beaten_at is None else max(0.0, now - beaten_at)
        own = self._executor.dedicated
        connections = (self._link, self._job_loop.settling)
        watch = self.loop_watch
        block = None if watch is None else watch.block
        return Vitals(
            version=self._version,
            schema=self._link.target.schema,
            worker_id=heartbeat.worker_id,
            # A blocked loop cannot give up its lease, but the lease ends all the same.
            trusted=self._job_loop.worker_id != 0 and age is not None and age <= self.lease,
            draining=self.draining,
            listening=self.listening,
            leads=self.leads,
            lease=self.lease,
            slots=self._slots,
            dedicated={q: (count, count - self._executor.free_of(q)) for q, count in own.items()},
            running=len(self._executor.running),
            unsettled=settler.unsettled,
            settled=dict(settler.settled),
            lost=settler.lost,
            round_trips=sum(link.round_trips for link in connections),
            round_trip_seconds=sum(link.seconds for link in connections),
            loop_age=max(0.0, now - self._liveness.turned_at),
            turn_age=max(0.0, now - heartbeat.turned_at),
            heartbeat_age=age,
            services=[status for _, status in self._statuses(now)],
            blocked=None if block is None else block.cause(code=False),
            blocked_seconds=0.0 if watch is None else watch.seconds,
            blocks=0 if watch is None else watch.blocks,
        )

    def _tracks(self) -> Iterable[StatusTracker]:
        return (track for service in self._services for track in service.tracks())

    def _statuses(self, now: float) -> Iterable[tuple[StatusTracker, ServiceStatus]]:
        for track in self._tracks():
            status = track.status(now)
            if track is self._job_loop.track:
                status = replace(status, busy_for=max(status.busy_for, self._asking_for(now)))
            yield track, status

    def _asking_for(self, now: float) -> float:
        """Return how long verdicts have waited without an answered round trip of the job loop."""
        settler = self._job_loop.settler
        if settler.unsettled == 0:
            return 0.0
        return max(0.0, now - max(settler.unsettled_since, self._link.answered_at or 0.0))


def storable(trouble: str) -> str:
    """Return a text that any database can store, whatever its encoding."""
    plain = trouble.replace("\0", "\\0").encode("ascii", "backslashreplace").decode()
    return plain[:_LONGEST_TROUBLE]


def alive(vitals: Vitals) -> list[Finding]:
    """Return findings for /livez: whether the event loop runs and the heartbeat tries."""
    return [
        _loop(vitals),
        _within("heartbeat", vitals.turn_age, vitals.lease + _SLOWEST_TURN, "tried"),
    ]


def ready(vitals: Vitals) -> list[Finding]:
    """Return findings for /readyz without the database: whether the worker claims jobs."""
    return [*alive(vitals), _lease(vitals), _drains(vitals), _listens(vitals), *_work(vitals)]


def is_well(findings: Sequence[Finding]) -> bool:
    """Return whether no finding is wrong."""
    return all(finding.status != "wrong" for finding in findings)


def _loop(vitals: Vitals) -> Finding:
    found = _within("event loop", vitals.loop_age, vitals.lease, "ran")
    if vitals.blocked is None:
        return found
    status = "note" if found.status == "ok" else found.status
    return Finding(found.about, status, f"{found.words}; it is blocked {vitals.blocked}")


def _work(vitals: Vitals) -> list[Finding]:
    """Return findings about services that fail. The log has the details."""
    found: list[Finding] = []
    for status in vitals.services:
        about = f"service {status.service}"
        if status.unwell_for >= vitals.lease:
            found.append(Finding(about, "wrong", status.words(named=False)))
        elif status.failures:
            found.append(Finding(about, "note", status.words(named=False)))
    if not found and vitals.services:
        return [Finding("services", "ok", f"all {len(vitals.services)} work")]
    return found


def _within(about: str, age: float, limit: float, verb: str) -> Finding:
    words = f"{verb} {in_words(age)} ago"
    if age <= limit:
        return Finding(about, "ok", words)
    return Finding(about, "wrong", f"{words}, longer than {in_words(limit)}: it is stuck")


def _lease(vitals: Vitals) -> Finding:
    if vitals.heartbeat_age is None:
        return Finding("lease", "wrong", "not registered yet")
    words = f"the last heartbeat was {in_words(vitals.heartbeat_age)} ago"
    if vitals.heartbeat_age > vitals.lease:
        lease = in_words(vitals.lease)
        return Finding(
            "lease",
            "wrong",
            f"{words}, longer than the lease of {lease}: other workers get its jobs",
        )
    if vitals.trusted:
        return Finding("lease", "ok", words)
    return Finding("lease", "wrong", f"{words}, and the next one failed: the worker does not claim")


def _drains(vitals: Vitals) -> Finding:
    words = f"{vitals.running} of {vitals.slots} slots taken"
    if vitals.dedicated:
        own = (f"{q}: {taken} of its {count}" for q, (count, taken) in vitals.dedicated.items())
        words += f" ({', '.join(own)})"
    if vitals.draining:
        return Finding("worker", "wrong", f"draining: {words}, and it claims no more jobs")
    return Finding("worker", "ok", words)


def _listens(vitals: Vitals) -> Finding:
    if vitals.listening is None:
        return Finding("listener", "note", "not tried yet")
    if vitals.listening:
        return Finding("listener", "ok", "receives notifications")
    return Finding("listener", "note", "receives no notifications; the worker polls")
