"""Commands of people and the code while the fleet works: pauses, limits, purges; and the sweeps."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from headway.core.definition import Definition
from headway.core.limits import Limit
from headway.core.retry import Retry
from headway.core.state import State
from headway.store.rows import Lane
from headway.store.statements import bulk, controls, counts
from tests.model.controls import Name, Numbers
from tests.model.job import NO_LINE
from tests.model.machine import LINES, QUEUES, TENANTS, Machine, ends_of, members
from tests.model.pair import End
from tests.store.store import TASK

_STOPPED: list[Name] = [
    *(("queue", queue) for queue in QUEUES),
    ("task", TASK),
    ("task", f"{TASK}/pack"),
    ("key", LINES[0].key or ""),
    ("key", TENANTS[0].key or ""),
]
_HANDLERS = (TASK, f"{TASK}/pack")
_LIMITED: list[Name] = [
    *(("queue", queue) for queue in QUEUES),
    *(("task", handler) for handler in _HANDLERS),
    *(("keys", handler) for handler in _HANDLERS),
]
_limits = st.sampled_from(
    [
        None,
        Limit(concurrency=1),
        Limit(concurrency=2),
        Limit(concurrency=3),
        Limit(rate="1/10s"),
        Limit(rate="1/5s", burst=2),
        Limit(rate="1/2s", burst=3, concurrency=2),
    ]
)


class Controlled(Machine):
    @initialize(
        said=st.dictionaries(st.sampled_from(_LIMITED), _limits, max_size=2),
        of_tenants=_limits,
        stopped=st.none() | st.sampled_from(_STOPPED),
        tenants=st.integers(0, 4),
        packed=st.integers(0, 2),
        let_in=st.booleans(),
    )
    def start(
        self,
        said: dict[Name, Limit | None],
        of_tenants: Limit | None,
        stopped: Name | None,
        tenants: int,
        packed: int,
        let_in: bool,
    ) -> None:
        """Something is said already, of jobs that are there: few examples would get there by chance."""
        for name, limit in [*said.items(), (("keys", TASK), of_tenants)]:
            self.limit(name, limit)
            self.agree()
        for number in range(tenants):
            self.enqueue(QUEUES[number // 2], 0, None, None, 3, 1, TENANTS[number % 2])
            self.agree()
        self.pair.enqueue(Lane("b", 0), None, None, 3, NO_LINE, [None] * packed, step="pack")
        self.agree()
        if let_in:
            self.admit_all()
            self.agree()
        if stopped is not None:
            self.pause(stopped, 15.0)
            self.agree()

    @rule(
        member=members,
        rounds=st.lists(
            st.tuples(st.lists(ends_of, max_size=3), st.booleans()), min_size=2, max_size=4
        ),
    )
    def toil(self, member: int, rounds: list[tuple[list[End], bool]]) -> None:
        """Several rounds of work, with a little time in between; now and then another worker comes
        along that has not heard of any limit."""
        for ends, other_claims in rounds:
            self.promote()
            self.agree()
            self.admit_all()
            self.agree()
            if other_claims:
                self.claim((member + 1) % 3, False, 2, 2, "b", False, False)
                self.agree()
            self.work(member, ends)
            self.agree()
            self.pair.advance(5)

    # -- pauses -----------------------------------------------------------------------------------

    @rule(name=st.sampled_from(_STOPPED), lasting=st.sampled_from([None, 15.0, 15.0]))
    def pause(self, name: Name, lasting: float | None) -> None:
        kind: Any = name[0]
        since = self.pair.run(
            "pause",
            controls.pause(
                self.target, kind, name[1], actor="ada", reason=None, until=lasting, now=self.now
            ),
        )
        assert since <= self.now
        until = None if lasting is None else self.now + timedelta(seconds=lasting)
        self.model.controls.pause(name, until)

    @rule(name=st.sampled_from(_STOPPED))
    def resume(self, name: Name) -> None:
        kind: Any = name[0]
        opened = self.pair.run("resume", controls.resume(self.target, kind, name[1], self.now))
        assert opened == self.model.controls.resume(name, self.now)

    @precondition(lambda self: self._paused())
    @rule(data=st.data())
    def open(self, data: st.DataObject) -> None:
        """Something that is paused."""
        self.resume(data.draw(st.sampled_from(self._paused())))

    def _paused(self) -> list[Name]:
        said = self.model.controls
        return [name for name in _STOPPED if said.paused(name, self.now)]

    # -- limits -----------------------------------------------------------------------------------

    @rule(name=st.sampled_from(_LIMITED), limit=_limits)
    def limit(self, name: Name, limit: Limit | None) -> None:
        """Set, raised, lowered or lifted."""
        kind: Any = name[0]
        with self._counted():
            said = controls.set_limit(self.target, kind, name[1], limit, "ada", self.now)
            assert self.pair.run("limit", said)
        self.model.controls.set(name, Numbers.of(limit))
        self.model.count_running()

    @rule(name=st.sampled_from(_LIMITED))
    def reset(self, name: Name) -> None:
        kind: Any = name[0]
        with self._counted():
            done = self.pair.run("reset", controls.reset_limit(self.target, kind, name[1]))
        assert done == self.model.controls.reset(name)
        self.model.count_running()

    @rule(
        handlers=st.sets(st.sampled_from(_HANDLERS), min_size=1),
        limit=_limits,
        by_key=st.booleans(),
    )
    def declare(self, handlers: Collection[str], limit: Limit | None, by_key: bool) -> None:
        """By a worker that starts: what its code says holds unless a person said otherwise."""
        numbers = None if limit is None else Numbers.of(limit)
        own = _by_key(limit) if by_key else limit
        definitions = [_definition(handler, own) for handler in sorted(handlers)]
        with self._counted():
            news = self.pair.run("declare", controls.declare(self.target, definitions))
        said: list[tuple[Name, Numbers | None]] = []
        for handler in sorted(handlers):
            said.append((("task", handler), None if by_key else numbers))
            said.append((("keys", handler), numbers if by_key else None))
        assert news == self.model.controls.declare(said)
        self.model.count_running()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """As it is sent: what runs already is counted in the same transaction."""
        with self.pair.store.conn.transaction():
            yield
            self.pair.store.run(controls.mark_limited())

    # -- queues -----------------------------------------------------------------------------------

    @rule(queue=st.sampled_from(QUEUES), task=st.sampled_from([None, TASK]))
    def purge(self, queue: str, task: str | None) -> None:
        change = bulk.purge(self.target, queue, task, self.now)
        assert self._play("purge", change) == self.model.purge(queue)

    @rule(queue=st.sampled_from(QUEUES))
    def transfer(self, queue: str) -> None:
        """Waiting jobs of a queue go to the other one."""
        (to,) = (other for other in QUEUES if other != queue)
        waiting = self.model.waiting_in(queue)
        change = bulk.transfer(self.target, queue, to, None, self.now)
        assert self._play("transfer", change) == self.model.transfer(queue, to)
        self.pair.adopt_order([job for job in waiting if job.state is State.READY])

    def _play(self, command: str, change: bulk.Change) -> int:
        script = bulk.throughout(change)
        statement = next(script)
        while True:
            try:
                statement = script.send(self.pair.run(command, statement))
            except StopIteration as end:
                return end.value

    # -- sweeps -----------------------------------------------------------------------------------

    @rule(most=st.sampled_from([1, 3, 1000]))
    def tally(self, most: int) -> None:
        """Adds up some of the ends; what is told of them stays the same."""
        self.pair.run("tally", counts.tally(most, self.now))

    @rule()
    def clean_up(self) -> None:
        """Buckets that are full say nothing, and there was nobody who ran under a limit and did not
        count: who claims and who sets one do not meet here."""
        self.pair.clean_up()
        assert self.pair.run("mark", controls.mark_limited()) == 0


def _by_key(limit: Limit | None) -> Limit | None:
    if limit is None:
        return None
    return Limit(
        concurrency=limit.concurrency, rate=limit.rate, burst=limit.burst, key=lambda n, **_: str(n)
    )


def _definition(handler: str, limit: Limit | None) -> Definition:
    name, _, step = handler.partition("/")
    return Definition(
        name=name, step=step, function=_work, queue="a", priority=0, retry=Retry(), timeout=None,
        ttl=None, executor="async", slots=None, limit=limit,
    )  # fmt: skip


async def _work(n: int) -> None: ...
