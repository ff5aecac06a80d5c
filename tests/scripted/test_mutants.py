"""The histories find the defects that they are for: each is put back, and caught."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import pytest

from headway.core.verdict import CANCEL
from headway.engine.jobs import orphans as orphans_module
from headway.engine.jobs.loop import JobLoop
from headway.engine.jobs.orphans import Orphans
from headway.engine.jobs.settler import Settler, VerdictBatch
from headway.engine.running.executor import Executor
from headway.errors import DatabaseUnavailable
from headway.store.connections import engine_connection as link_module
from headway.store.connections.engine_connection import EngineConnection
from headway.store.documents import Settled
from headway.store.rows import Claim, Lane, NotSettled
from headway.store.statement import Row, Statement, text
from headway.store.statements import jobs
from tests.scripted.cast import Cast
from tests.scripted.history import FORGET, LONG_DELAY, OUTAGE, UNSEEN, play_all
from tests.scripted.stage import Stage

_Find = Callable[[Orphans, int, Iterable[Claim]], Awaitable[list[Claim]]]


def _search_only_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> _Find:
    """Turn off the regular search, which finds every orphan in the end."""
    find = Orphans.find

    async def unless_calm(self: Orphans, worker_id: int, known: Iterable[Claim]) -> list[Claim]:
        if self._unanswered_at is None:
            self._search_at = orphans_module.monotonic() + 1e6
            return []
        return await find(self, worker_id, known)

    monkeypatch.setattr(Orphans, "find", unless_calm)
    return unless_calm


async def test_r2_a_worker_that_stops_looking_for_orphans_after_a_minute_is_caught(
    stage: Stage, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = _search_only_after_a_failure(monkeypatch)

    async def gives_up(self: Orphans, worker_id: int, known: Iterable[Claim]) -> list[Claim]:
        since = self._unanswered_at
        if since is not None and orphans_module.monotonic() > since + 60:
            self._unanswered_at = None
        return await find(self, worker_id, known)

    monkeypatch.setattr(Orphans, "find", gives_up)
    with pytest.raises(AssertionError, match="something never ends"):
        await play_all(stage, cast.setup("plain"), ways=[OUTAGE])


async def test_r2_a_worker_that_knows_orphans_by_their_job_is_caught(
    stage: Stage, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    _search_only_after_a_failure(monkeypatch)
    orphans = jobs.orphans

    def by_id(worker: int, known: Iterable[Claim], limit: int) -> Statement[list[Claim]]:
        known = list(known)
        asked, ids = orphans(worker, known, limit), {claim.id for claim in known}

        def read(rows: Sequence[Row]) -> list[Claim]:
            return [claim for claim in asked.read(rows) if claim.id not in ids]

        return Statement(asked.name, asked.params, read)

    monkeypatch.setattr(jobs, "orphans", by_id)
    with pytest.raises(AssertionError, match="something never ends"):
        await play_all(stage, cast.setup("flow"), ways=[UNSEEN], within=12)


async def test_r4_a_worker_that_rests_after_a_refusal_is_caught(
    stage: Stage, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def rests(self: JobLoop, batch: VerdictBatch, link: EngineConnection) -> None:
        first, *others = batch
        instead = self.settler.refused(first, ValueError("refused")) if not others else first
        assert instead is not None
        self.settler.unsent(VerdictBatch.of([instead, *others]))
        self.settler.shrink(batch)
        raise DatabaseUnavailable("refused")

    monkeypatch.setattr(JobLoop, "_settle_alone", rests)
    with pytest.raises(AssertionError, match="rested"):
        await play_all(stage, cast.setup("refused"), faults=0, prompt=True)


async def test_r5_a_look_that_stops_jobs_by_their_id_is_caught(
    stage: Stage, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_id(self: Executor, claim: Claim, reason: Any) -> None:
        self.stop(claim.id, reason)

    monkeypatch.setattr(Executor, "stop_claim", by_id)
    with pytest.raises(AssertionError, match=re.escape("ran {'one': 1, 'two': 2}")):
        await play_all(stage, cast.setup("flow"), ways=LONG_DELAY)


async def test_s1_a_worker_that_blames_verdicts_for_a_bad_claim_is_caught(
    stage: Stage, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def blames(self: JobLoop, batch: VerdictBatch, link: EngineConnection) -> None:
        replaced = [self.settler.refused(one, ValueError("refused")) for one in batch]
        self.settler.unsent(VerdictBatch.of([one for one in replaced if one is not None]))

    monkeypatch.setattr(JobLoop, "_settle_alone", blames)
    with pytest.raises(AssertionError, match="ended as \\['failed'\\]"):
        await play_all(stage, cast.setup("beside_nonsense"), faults=0)


async def test_h1_a_worker_that_takes_a_lost_claim_for_a_cancelled_one_is_caught(
    stage: Stage, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = Settler.sent

    def cancels(self: Settler, batch: VerdictBatch, answers: NotSettled) -> None:
        lost = [one for one in batch if answers.get(one.claim.id) == "lost"]
        sent(self, batch, answers)
        for one in lost:
            if one.verdict.kind != "cancel":
                self._waiting.append(Settled(one.claim, CANCEL))
                self._unsettled += 1
                self._empty.clear()

    def as_it_was(name: str, schema: str) -> str:
        """Claims are counted, and so come again; and nobody needs to have asked for a stop."""
        sql: str = text(name, schema)
        if name in ("moves/claim", "moves/claim_plain"):
            start = sql.index("claim = (((")
            return sql[:start] + "claim = claim + 1," + sql[sql.index(" attempt = attempt + 1") :]
        if name == "moves/finish":
            request = f'"{schema}".stop_request r where r.job_id = v.job_id'
            asked = f"exists (select 1 from {request})) then true"
            assert asked in sql, "the mutant no longer changes the statement"
            return sql.replace(asked, "true) then true")
        return sql

    async def hint(job: str) -> None:
        stage.worker._claiming.planner.hint(Lane("default", 0), 1)

    async def setup(stage: Stage) -> Any:
        stage.on_start = hint
        return [await cast.again()]

    monkeypatch.setattr(Settler, "sent", cancels)
    monkeypatch.setattr(link_module, "text", as_it_was)
    with pytest.raises(AssertionError, match=r"ended as \['cancelled'\]|a claim ran twice"):
        await play_all(stage, setup, ways=[FORGET])
