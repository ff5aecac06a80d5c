"""scripts.py: operations that take more than one statement."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from headway.core.state import State
from headway.errors import DatabaseUnavailable, JobNotFound
from headway.store import scripts
from headway.store.scripts import Noticed, Script, ScriptReply
from tests.store.store import Store


def _play(store: Store, script: Script[Any]) -> Any:
    try:
        step = next(script)
        while True:
            if isinstance(step, Noticed):
                step = script.send(ScriptReply(store.run(step.statement), repeated=False))
            else:
                step = script.send(store.run(step))
    except StopIteration as finished:
        return finished.value


def test_the_cancel_script_says_whether_there_was_anything_to_cancel(
    store: Store, worker: int
) -> None:
    waiting, running = store.enqueue(queue="other"), store.held(worker)
    ended = store.held(worker)
    store.settle(ended, "succeed")
    now = store.now
    assert _play(store, scripts.cancel(store.target, waiting, now)) is True
    assert _play(store, scripts.cancel(store.target, UUID(running.id), now)) is True
    assert _play(store, scripts.cancel(store.target, UUID(ended.id), now)) is False
    with pytest.raises(JobNotFound):
        _play(store, scripts.cancel(store.target, uuid4(), now))


def test_the_revive_script_says_whether_there_was_anything_to_repeat(
    store: Store, worker: int
) -> None:
    failed, done = store.held(worker), store.held(worker)
    store.settle(failed, "fail")
    store.settle(done, "succeed")
    running, ready = store.held(worker), store.enqueue()
    answers = {
        claim_id: _play(store, scripts.revive(store.target, UUID(str(claim_id)), None, store.now))
        for claim_id in (failed.id, done.id, running.id, ready)
    }
    assert list(answers.values()) == [True, False, False, False]
    with pytest.raises(JobNotFound):
        _play(store, scripts.revive(store.target, uuid4(), None, store.now))


@pytest.mark.parametrize(
    "script",
    [
        lambda store, job: scripts.cancel(store.target, job, store.now),
        lambda store, job: scripts.revive(store.target, job, None, store.now),
    ],
    ids=["cancel", "revive"],
)
def test_a_job_that_keeps_changing_hands_is_asked_for_again_but_not_for_ever(
    store: Store, script: Any
) -> None:
    """The script is a generator: its writes change nothing, as if the job always slipped away, and it
    reads a job that could be changed."""
    asked: list[str] = []
    job = store.enqueue(delay=60)

    def slip_away() -> None:
        playing = script(store, job)
        step = next(playing)
        while True:
            if isinstance(step, Noticed):
                asked.append(step.statement.name)
                step = playing.send(ScriptReply(None, repeated=False))
            else:
                step = playing.send(store.run(step))

    with pytest.raises(DatabaseUnavailable, match="try again"):
        slip_away()
    assert sum(name.startswith("moves/") for name in asked) > 3


def test_waiting_for_the_end_sees_an_end_that_came_in_between(store: Store, worker: int) -> None:
    claim = store.held(worker)
    script = scripts.await_end(UUID(claim.id), store.now)
    first = next(script)
    seen = store.run(first)
    waiting = script.send(seen)
    assert waiting.name == "writes/await"
    store.settle(claim, "succeed", result=7)
    # Nothing lives any more that could be waited for.
    with pytest.raises(StopIteration) as finished:
        script.send(store.run(waiting))
    assert finished.value.value is None, "it will be found by the first look after this"
    outcome = _play(store, scripts.ended(UUID(claim.id)))
    assert (outcome.state, outcome.result) == (State.SUCCEEDED, "7")
