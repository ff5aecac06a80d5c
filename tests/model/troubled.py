"""Faults: lost workers, rows that somebody has locked, replies that were lost."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import multiple, precondition, rule

from headway.store.rows import Claim
from headway.store.statements import fleet, jobs
from tests.model.controlled import Controlled
from tests.model.job import Job
from tests.model.machine import Machine, ends_of, members
from tests.model.pair import End
from tests.store.store import TASK, new_job


class Troubled(Controlled):
    # -- lost workers -----------------------------------------------------------------------------

    @rule(member=members)
    def lose(self, member: int) -> None:
        """A worker stops, and what it still holds is nobody's."""
        worker = self.fleet[member]
        self.pair.run("lose", fleet.retire(worker, self.now))
        self.model.leases[worker] = self.now
        self.model.survived.add(worker)

    @rule(member=members, stops=st.booleans())
    def crash(self, member: int, stops: bool = False) -> None:
        """A worker dies, or stops, and soon is found to be lost."""
        self.lose(member) if stops else self.die(member)
        self.agree()
        self.rescue()

    def die(self, member: int) -> None:
        """Its lease runs out, and its process does not register again."""
        worker = self.fleet[member]
        lapse = "update worker set expires_at = %s where id = %s"
        self.pair.store.eyes.execute(lapse, (self.now, worker))
        self.model.leases[worker] = self.now
        self.model.died.add(worker)

    @rule(
        target=Machine.claims,
        member=members,
        ends=st.lists(ends_of, min_size=1, max_size=5),
        registers_again=st.booleans(),
    )
    def stall(self, member: int, ends: list[End], registers_again: bool) -> Any:
        """A worker sleeps past its lease, another takes over, and the first wakes up and settles. It may
        register again before its jobs are taken back: then none of them is a suspect."""
        mine = self._claim(member, 5)
        self.agree()
        self.die(member)
        if registers_again:
            self.model.died.discard(self.fleet[member])
            self._living(member)
        self.agree()
        self.rescue()
        self.agree()
        self.pair.advance(2)
        self.promote()
        self.agree()
        theirs = self._claim((member + 1) % 3, 9)
        self.agree()
        self.pair.settle(list(zip(mine, ends, strict=False)))
        return multiple(*mine, *theirs)

    @rule()
    def rescue(self) -> None:
        rescued = self.pair.run("rescue", jobs.rescue(self.target, 99, self.now))
        crashes = {one.id: self.model.jobs[one.id].crashes for one in rescued}
        expected = self.model.rescue()
        assert {one.id: (one.came_to, one.crashed) for one in rescued} == expected
        for one in rescued:
            if one.came_to != "r":
                self.pair.always.left(one.id, one.step)
            elif one.crashed:
                self._adopt_moment(self.model.jobs[one.id], 2.0 ** crashes[one.id])

    def _adopt_moment(self, job: Job, longest: float) -> None:
        """A back-off has jitter. The longest is taken, so that an example runs the same again."""
        store = self.pair.store
        waits = (store.row(job.id)["run_at"] - self.now).total_seconds()
        assert longest / 2 <= waits <= longest, "the back-off is out of bounds"
        store.eyes.execute("update job set run_at = %s where id = %s", (job.run_at, job.id))

    # -- strangers --------------------------------------------------------------------------------

    @rule(job_id=Machine.known)
    def cancel_locked(self, job_id: str) -> None:
        """Somebody has the row locked: a request is left, and nobody waits."""
        with self.pair.locked(job_id):
            came_to = self.pair.run("cancel", jobs.cancel(self.target, [job_id], self.now))
        assert came_to.get(job_id) == self.model.cancel(self.model.jobs[job_id], locked=True)

    @precondition(lambda self: self.model.waiting_asked())
    @rule()
    def cancel_asked(self) -> None:
        """As the leader does."""
        waiting = self.pair.run("asked", jobs.asked(99))
        assert waiting == self.model.waiting_asked()
        came_to = self.pair.run("cancel", jobs.cancel(self.target, waiting, self.now))
        assert came_to == {id_: self.model.cancel(self.model.jobs[id_]) for id_ in waiting}

    @rule(claim=Machine.claims, end=ends_of)
    def settle_locked(self, claim: Claim, end: End) -> None:
        self.pair.settle_locked(claim, end)

    @rule(kept=st.sampled_from([(True, True), (True, True), (False, True), (True, False)]))
    def keep(self, kept: tuple[bool, bool]) -> None:
        """A worker declares whether jobs are kept: those that succeeded, and the others."""
        succeeded, failed = ("7 days" if one else None for one in kept)
        query = "update task set keep_succeeded = %s, keep_failed = %s where name = %s"
        self.pair.store.eyes.execute(query, (succeeded, failed, TASK))
        self.model.keeps = {True: kept[0], False: kept[1]}

    @rule(job_id=Machine.known)
    def repeat(self, job_id: str) -> None:
        """A producer whose reply was lost sends its job again, and it makes nothing new."""
        job = self.model.jobs[job_id]
        if not job.kept and job_id not in self.model.unkept:
            return  # it ended too long ago
        again = new_job(id=job_id, queue=job.lane.queue, priority=job.lane.priority)
        with self.pair.store.conn.transaction():
            assert self.pair.run("repeat", jobs.enqueue(self.target, [again], self.now)) == {}
            withdrawn = self.pair.run("repeat", jobs.withdraw([job_id]))
        assert withdrawn == job.state.finished
