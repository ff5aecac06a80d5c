"""The histories find the defects that they are for: each is put back, and caught."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from headway.core.verdict import CANCEL
from headway.engine.jobs import round_trip as exchange_module
from headway.engine.jobs.round_trip import Exchange
from headway.engine.jobs.settler import Batch, Settler
from headway.engine.running.executor import Executor
from headway.errors import DatabaseUnavailable
from headway.store import jobs
from headway.store import link as link_module
from headway.store.documents import Settled
from headway.store.rows import Claim, Lane, NotSettled
from headway.store.statement import Row, Statement, text
from tests.scripted.cast import Cast
from tests.scripted.history import DELAY, FORGET, OUTAGE, UNSEEN, play_all
from tests.scripted.stage import Stage


async def test_r2_a_worker_that_stops_looking_for_orphans_after_a_minute_is_caught(
    stage: Stage, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopt = Exchange._adopt_orphans

    async def gives_up(self: Exchange) -> None:
        since = self._unanswered_at
        if since is not None and exchange_module.monotonic() > since + 60:
            self._unanswered_at = None
        await adopt(self)

    monkeypatch.setattr(Exchange, "_adopt_orphans", gives_up)
    with pytest.raises(AssertionError, match="something never ends"):
        await play_all(stage, cast.setup("plain"), ways=[OUTAGE])


async def test_r2_a_worker_that_knows_orphans_by_their_job_is_caught(
    stage: Stage, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    async def rests(self: Exchange, batch: Batch) -> None:
        first, *others = batch
        instead = self.settler.refused(first, ValueError("refused")) if not others else first
        assert instead is not None
        self.settler.unsent(Batch.of([instead, *others]))
        self.settler.shrink(batch)
        raise DatabaseUnavailable("refused")

    monkeypatch.setattr(Exchange, "_settle_alone", rests)
    with pytest.raises(AssertionError, match="rested"):
        await play_all(stage, cast.setup("refused"), faults=0, prompt=True)


async def test_r5_a_look_that_stops_jobs_by_their_id_is_caught(
    stage: Stage, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_id(self: Executor, claim: Claim, reason: Any) -> None:
        self.stop(claim.id, reason)

    monkeypatch.setattr(Executor, "stop_claim", by_id)
    with pytest.raises(AssertionError, match=re.escape("ran {'one': 1, 'two': 2}")):
        await play_all(stage, cast.setup("flow"), ways=DELAY)


async def test_s1_a_worker_that_blames_verdicts_for_a_bad_claim_is_caught(
    stage: Stage, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def blames(self: Exchange, batch: Batch) -> None:
        replaced = [self.settler.refused(one, ValueError("refused")) for one in batch]
        self.settler.unsent(Batch.of([one for one in replaced if one is not None]))

    monkeypatch.setattr(Exchange, "_settle_alone", blames)
    with pytest.raises(AssertionError, match="ended as \\['failed'\\]"):
        await play_all(stage, cast.setup("beside_nonsense"), faults=0)


async def test_h1_a_worker_that_takes_a_lost_claim_for_a_cancelled_one_is_caught(
    stage: Stage, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = Settler.sent

    def cancels(self: Settler, batch: Batch, answers: NotSettled) -> None:
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
        if name == "moves/claim":
            start = sql.index("claim = (((")
            return sql[:start] + "claim = claim + 1," + sql[sql.index(" attempt = attempt + 1") :]
        asked = f'exists (select 1 from "{schema}".stop_request r where r.job_id = v.i)) then true'
        return sql.replace(asked, "true) then true") if name == "moves/finish" else sql

    async def hint(job: str) -> None:
        stage.worker._claimer.hint(Lane("default", 0), 1)

    async def setup(stage: Stage) -> Any:
        stage.on_start = hint
        return [await cast.again()]

    monkeypatch.setattr(Settler, "sent", cancels)
    monkeypatch.setattr(link_module, "text", as_it_was)
    with pytest.raises(AssertionError, match="ended as \\['cancelled'\\]"):
        await play_all(stage, setup, ways=[FORGET])
