"""Isolated jobs end as they would in the worker."""

import logging
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headway.core import codec, failure
from headway.core.definition import Definition
from headway.core.verdict import Broke, Moved, Raised, Returned, Stopped
from headway.engine.running.transactional import SettledInTransaction
from headway.errors import Snooze
from tests.engine import isolated_tasks as tasks
from tests.engine.bench import Bench, alive, comparable, value


@pytest.mark.parametrize("name", ["on_loop", "in_thread", "in_process", "together"])
async def test_b1_each_outcome_is_as_in_the_worker(bench: Bench, name: str) -> None:
    definition: Definition = getattr(tasks, name).definition
    assert bench.isolation.can_run(definition)
    for how in tasks.HOWS:
        here = await bench.handlers.outcome(await bench.claimed(definition, how))
        isolated = await bench.isolated(await bench.claimed(definition, how))
        expected = comparable(here, definition)
        assert comparable(isolated, definition) == expected, how
        if how == "error":
            assert isinstance(isolated, Broke)
            assert 'raise ValueError("no")' in isolated.error["traceback"]
        if how == "snooze":
            assert isinstance(isolated, Raised)
            assert isinstance(isolated.error, Snooze)


async def test_b1_children_of_a_job_are_those_that_it_would_make_in_the_worker(
    bench: Bench,
) -> None:
    definition = tasks.parent.definition
    here = await bench.handlers.outcome(await bench.claimed(definition, 1))
    isolated = await bench.run(tasks.parent, 1)
    assert isinstance(isolated, Returned)
    assert isolated.children is not None
    assert [child.task for child in isolated.children] == ["on_loop", "greet"]
    assert comparable(isolated, definition) == comparable(here, definition)


async def test_children_with_unique_keys_exist_once_the_child_has_settled_its_job(
    bench: Bench, db
) -> None:
    outcome = await bench.run(tasks.unique_parent, 1)
    assert isinstance(outcome, SettledInTransaction)
    states = dict(db.execute("select task, state from jobs").fetchall())
    assert states == {"unique_parent": "succeeded", "greet": "ready"}


async def test_the_context_is_that_of_the_job_and_the_process_is_another_that_is_kept(
    bench: Bench,
) -> None:
    pids: set[int] = set()
    for task in (tasks.facts, tasks.facts_in_thread, tasks.facts_in_process):
        options = {"headers": {"a": "b"}, "timeout": "10m"}
        running = await bench.claimed(task.definition, **options)
        running.timeout = 600.0  # as the worker reads it from the job
        facts = value(await bench.isolated(running))
        assert (facts["job_id"], facts["task"]) == (running.claim.id, task.definition.name)
        assert (facts["queue"], facts["attempt"], facts["max_attempts"]) == ("default", 1, 20)
        assert facts["headers"] == {"a": "b"}
        deadline = datetime.fromisoformat(facts["deadline"])
        assert timedelta(0) < deadline - datetime.now(UTC) < timedelta(minutes=10)
        assert facts["main"] is (task is not tasks.facts_in_thread)
        pids.add(facts["pid"])
    assert len(pids) == 1
    assert os.getpid() not in pids
    bench.isolation.close()
    assert not any(alive(pid) for pid in pids)


async def test_dependencies_are_there_and_overridden_where_that_can_be_sent(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    assert value(await bench.run(tasks.greet, "ada")) == "hello ada in the house"
    bench.isolation.close()
    bench._isolation = None  # pyright: ignore[reportPrivateUsage]
    bench.overrides |= {tasks.greeting: tasks.other_greeting, tasks.house: lambda: "garden"}
    with caplog.at_level(logging.WARNING, "headway.worker"):
        assert value(await bench.run(tasks.greet, "ada")) == "good day ada in the house"
    assert len(caplog.records) == 1


async def test_a_dependency_that_cannot_be_closed_is_not_the_fault_of_its_job(
    bench: Bench,
) -> None:
    assert value(await bench.run(tasks.collapse)) == "house"
    assert value(await bench.run(tasks.on_loop, "next")) == "next"


async def test_a_job_of_a_batch_task_waits_for_no_others(bench: Bench) -> None:
    assert value(await bench.run(tasks.patient, 1)) == 2


async def test_b1_a_suspect_of_a_batch_task_is_called_alone_also_in_the_worker(
    bench: Bench,
) -> None:
    running = await bench.claimed(tasks.patient.definition, 1)
    running.claim = replace(running.claim, crashes=1)
    assert value(await bench.handlers.outcome(running)) == 2


async def test_a_handler_may_start_processes_as_in_the_worker(bench: Bench) -> None:
    assert value(await bench.run(tasks.with_processes, 3)) == 9


# -- transactions and flows -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["write", "write_in_thread"])
async def test_g4_effects_and_success_are_committed_once_by_the_child(
    bench: Bench, effects, db, name: str
) -> None:
    running = await bench.claimed(getattr(tasks, name).definition, "done")
    outcome = await bench.isolated(running)
    assert isinstance(outcome, SettledInTransaction)
    assert outcome.verdict.kind == "succeed"
    assert running.settling
    assert effects() == ["done"]
    state, result = db.execute("select state, result from jobs").fetchone()
    assert state == "succeeded"
    assert result == codec.decode(outcome.verdict.result or b"")
    if name == "write":
        worker_id = bench.registration.worker_id
        assert (
            result == f"headway handlers of worker {worker_id} in {bench.hw._session.schema}"[:63]
        )


@pytest.mark.parametrize(("note", "kind"), [("error", "ValueError"), ("fatal", "Fatal")])
@pytest.mark.parametrize("name", ["write", "write_in_thread"])
async def test_g4_effects_of_a_failure_are_rolled_back(
    bench: Bench, effects, db, name: str, note: str, kind: str
) -> None:
    outcome = await bench.run(getattr(tasks, name), note)
    assert isinstance(outcome, Broke)
    assert outcome.error["type"].endswith(kind)
    assert outcome.again is (note == "error")
    assert effects() == []
    assert db.execute("select state from jobs").fetchone() == ("running",)


async def test_g4_effects_of_a_child_that_dies_are_rolled_back(bench: Bench, effects) -> None:
    outcome = await bench.run(tasks.write_and_die, "never")
    assert isinstance(outcome, Broke)
    assert outcome.error["type"] == failure.PROCESS_DIED
    assert effects() == []


async def test_g2_a_child_whose_claim_was_lost_writes_nothing(bench: Bench, effects, db) -> None:
    running = await bench.claimed(tasks.write.definition, "late")
    db.execute("update job set claim = claim + 1")
    assert await bench.isolated(running) == Stopped("shutdown")
    assert effects() == []


async def test_g5_a_step_moves_with_its_state(bench: Bench) -> None:
    definition = tasks.take.definition
    state = tasks.Basket(["milk"])
    here = await bench.handlers.outcome(await bench.claimed(definition, "egg", state=state))
    isolated = await bench.isolated(await bench.claimed(definition, "egg", state=state))
    assert isinstance(isolated, Moved)
    assert (isolated.advance.step, isolated.advance.delay) == ("pay", 3600.0)
    assert codec.decode(isolated.carried or b"") == {"items": ["milk", "egg"]}
    assert comparable(isolated, definition) == comparable(here, definition)


async def test_g5_a_step_in_a_transaction_moves_and_its_key_is_freed(bench: Bench, db) -> None:
    definition = replace(tasks.pay.definition, key=None)  # claimed without waiting for room
    running = await bench.claimed(definition, 5, state=tasks.Basket([]))
    running.claim = replace(running.claim, key="till")
    outcome = await bench.isolated(running)
    assert isinstance(outcome, SettledInTransaction)
    assert outcome.verdict.kind == "advance"
    assert db.execute("select step, input from job").fetchall() == [("give", {"items": ["5"]})]
    assert bench.freed == ["till", "door"]
