"""pg_task's tests of steps, P13 to P17, P39 to P42 and P49: where a step goes, and saving it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headway import Headway, Next
from headway.core.flow import following
from headway.errors import DatabaseError, InvalidInput
from headway.store import jobs
from headway.store.jobs import Settled
from headway.store.link import Link
from tests.reference.scenes import lose, refuse, two_steps
from tests.store.store import NOW, TASK, Store, ask, verdict


def _pair(hw: Headway) -> tuple[Any, Any]:
    flow = hw.flow("pair")

    @flow.step
    async def one() -> None: ...

    @flow.step
    async def two(number: int) -> int:
        return number

    return one, two


async def test_p13_what_is_no_next_step_ends_the_flow(hw: Headway) -> None:
    """pg_task: NextStep::none ends the task. Headway: whatever else is returned, as the result."""
    flow = hw.flow("one")

    @flow.step
    async def only() -> None: ...

    job = await flow.enqueue()
    assert (await hw.run_until_idle()).settled == {"succeed": 1}
    status = await job.status()
    assert (status.state, status.step, status.result) == ("succeeded", "only", None)


async def test_p14_a_next_step_runs_at_once(hw: Headway) -> None:
    """pg_task: an immediate step is forwarded. Headway: the same job runs on (decision 51)."""
    job = await two_steps(hw).enqueue(number=1)
    assert (await hw.run_until_idle()).settled == {"advance": 1, "succeed": 1}
    assert await job.result() == 20


def test_p15_nothing_returned_leads_nowhere(hw: Headway) -> None:
    """pg_task: none() is the variant None. Headway: what is not a `Next` is a result."""
    one, _ = _pair(hw)
    assert following(one.definition, None) is None


def test_p16_next_leads_to_a_step_with_its_input(hw: Headway) -> None:
    """pg_task: now(step) is the variant Now. Headway: a `Next` without a delay, checked when made."""
    one, two = _pair(hw)
    going = two.next(3)
    assert following(one.definition, going) == Next(two.definition, {"number": 3}, None)
    with pytest.raises(InvalidInput, match="number"):
        two.next(name="three")


def test_p17_after_leads_there_later(hw: Headway) -> None:
    """pg_task: delay(step, duration) is the variant Delayed. Headway: a `Next` with a delay."""
    one, two = _pair(hw)
    going = two.after("1h", number=3)
    assert following(one.definition, going) == Next(two.definition, {"number": 3}, 3600.0)


def test_p39_a_next_step_is_saved_and_its_attempts_start_anew(store: Store, worker: int) -> None:
    """pg_task: step saved, tried 0, lease cleared. Headway: the same, and the step done is noted."""
    claim = store.held(worker, step="one", input={"number": 3})
    store.settle(claim, "retry")
    (claim,) = store.claim(worker, _ask("one"))
    assert claim.attempt == 2
    assert store.settle(claim, "advance", step="two", input={"name": "Ada"}, max_attempts=7)
    row = store.row(claim.id)
    assert (row["state"], row["step"], row["input"]) == ("r", "two", {"name": "Ada"})
    assert (row["attempt"], row["max_attempts"], row["worker_id"]) == (0, 7, None)
    done = store.attempts(claim.id)[-1]
    assert (done["step"], done["next_step"], done["input"]) == ("one", "two", {"number": 3})


def test_p40_a_delayed_step_is_saved_with_its_moment(store: Store, worker: int) -> None:
    """pg_task: wakeup_at is set, tried 0. Headway: scheduled for that moment; no worker waits."""
    claim = store.held(worker, step="one")
    assert store.settle(claim, "advance", step="two", delay=3600)
    row = store.row(claim.id)
    assert (row["state"], row["step"], row["attempt"]) == ("s", "two", 0)
    assert row["run_at"] == NOW + timedelta(hours=1)


def test_p41_a_lost_claim_goes_nowhere(store: Store, worker: int) -> None:
    """pg_task: not after losing the lease. Headway: nothing is written (G2)."""
    claim = store.held(worker, step="one")
    (new,) = store.claim(lose(store), _ask("one"))
    before = store.everything()
    assert not store.settle(claim, "advance", step="two")
    assert store.everything() == before
    assert store.settle(new, "advance", step="three")
    assert store.row(claim.id)["step"] == "three"


@pytest.mark.parametrize(("table", "event"), [("job", "update"), ("attempt_other", "insert")])
async def test_p42_an_error_while_moving_on_surfaces_and_loses_nothing(
    store: Store, worker: int, table: str, event: str
) -> None:
    """pg_task: the database's error is returned. Headway: DatabaseError; the step is held as before."""
    claim = store.held(worker, step="one")
    refuse(store, table, event)
    before, link = store.everything(), Link(store.target)
    with pytest.raises(DatabaseError, match="not today"):
        await link.run(jobs.advance(store.target, [Settled(claim, verdict("advance"))], store.now))
    assert store.everything() == before
    await link.close()


async def test_p49_a_next_step_that_cannot_be_stored_fails_the_step_with_that_error(
    hw: Headway,
) -> None:
    """pg_task: saved as the task's error. Headway: InvalidInput, at the step that made it."""
    flow = hw.flow("bad")

    @flow.step
    async def one() -> Next:
        return two.next(thing=object())

    @flow.step
    async def two(thing: Any) -> None: ...

    job = await flow.enqueue()
    assert (await hw.run_until_idle()).settled == {"fail": 1}
    status = await job.status()
    assert (status.state, status.step, status.attempt) == ("failed", "one", 1)
    assert status.error is not None
    assert status.error["type"] == "InvalidInput"


def _ask(step: str) -> Any:
    return ask(tasks=[f"{TASK}/{step}"])
