"""G16: every public method, as every role: it does its job, or is refused and changes nothing."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from headway import Headway, HeadwayError, NewJobInfo
from headway.controls import Controls
from headway.errors import DatabaseError
from headway.flow import Flow
from headway.group import Group
from headway.job import Job
from headway.jobs import Jobs
from headway.pull.job import PulledJob
from headway.queues import Queues
from headway.schedules import Schedules
from headway.store.rights import DENIED
from headway.task import Task
from headway.workers import Workers
from tests.roles.stage import KINDS, STRANGER, Stage
from tests.support import DEADLINE, eventually

_CLASSES = (Headway, Group, Jobs, Workers, Task, Flow, Job, Queues, Controls, Schedules, PulledJob)

_ALL = {*KINDS, STRANGER}
_MEMBERS = {*KINDS}
_PRODUCERS = {"producer", "worker"}
_READERS = {"reader", "operator", "worker"}
_OPERATORS = {"operator", "worker"}
_WORKERS = {"worker"}
_OWNER: set[str] = set()


@dataclass(frozen=True)
class Call:
    """A method of something, with what it is given."""

    of: Any
    given: tuple[Any, ...] = ()
    named: dict[str, Any] | None = None


Make = Callable[[Stage, Headway], Call]


def _hw(*given: Any, **named: Any) -> Make:
    return lambda _, hw: Call(hw, given, named)


def _around(jobs: list[NewJobInfo]) -> Iterator[None]:
    yield


def _task(*given: Any) -> Make:
    return lambda _, hw: Call(hw.tasks["greet"], given)


def _flow(*given: Any) -> Make:
    return lambda _, hw: Call(hw.tasks["tour"], given)


def _step(_: Stage, hw: Headway) -> Call:
    def second() -> None:
        """Is declared and never enqueued."""

    return Call(hw.flow("tour of another kind"), (second,))


def _chain(_: Stage, hw: Headway) -> Call:
    flow = hw.flow("trip")

    @flow.step
    def there() -> None:
        """Goes on."""

    @flow.step
    def back(_: None) -> None:
        """Ends."""

    return Call(flow, (there, back))


def _group(hw: Headway) -> Group:
    return hw.group([hw.tasks["greet"].call()])


def _failed(stage: Stage) -> dict[str, Any]:
    return {"task": "greet", "since": f"{int(bool(stage.failed()))}h"}


# The roles that may, and how it is called. Of a method and its `_sync` twin only the first is named.
_METHODS: dict[str, tuple[set[str], Make]] = {
    "Headway.check": (_READERS, _hw(limit=5)),
    "Headway.close": (_ALL, _hw()),
    "Headway.enqueue": (_PRODUCERS, _hw("greet")),
    "Headway.enqueue_many": (
        _PRODUCERS,
        lambda _, hw: Call(hw, ([hw.tasks["greet"].call(), hw.tasks["tour"].call()],)),
    ),
    "Headway.failures": (_READERS, lambda s, hw: Call(hw, (f"{int(bool(s.failed()))}h",))),
    "Headway.enqueue_middleware": (_ALL, _hw(_around)),
    "Headway.flow": (_ALL, _hw("trip")),
    "Headway.get_task": (_ALL, _hw("greet")),
    "Headway.group": (_ALL, lambda _, hw: Call(hw, ([hw.tasks["greet"].call()],))),
    "Headway.job": (_ALL, lambda s, hw: Call(hw, (s.waiting(),))),
    "Headway.middleware": (_ALL, _hw(lambda job, call_next: call_next())),
    "Headway.migrate": (_OWNER, _hw()),
    "Headway.migration_sql": (_ALL, _hw()),
    "Headway.open": (_MEMBERS, _hw()),
    "Headway.pull": (_WORKERS, lambda s, hw: Call(hw, (s.busy_queue(),))),
    "Headway.run_until_idle": (_WORKERS, _hw()),
    "Headway.run_worker": (_WORKERS, _hw(signals=False)),
    "Headway.task": (_ALL, _hw(name="another")),
    "Headway.worker": (_ALL, _hw()),
    "Headway.server_info": (_MEMBERS, _hw()),
    "Jobs.count": (_READERS, lambda s, hw: Call(hw.jobs, (), {"queue": s.busy_queue()})),
    "Jobs.enqueue": (_PRODUCERS, lambda _, hw: Call(hw.jobs, ("greet",))),
    "Jobs.explain": (_READERS, lambda s, hw: Call(hw.jobs, (s.waiting(),))),
    "Jobs.failed": (_READERS, lambda s, hw: Call(hw.jobs, (), _failed(s))),
    "Jobs.failures": (_READERS, lambda s, hw: Call(hw.jobs, (), _failed(s))),
    "Jobs.get": (_READERS, lambda s, hw: Call(hw.jobs, (s.waiting(),))),
    "Jobs.list": (_READERS, lambda s, hw: Call(hw.jobs, (), {"queue": s.busy_queue()})),
    "Jobs.retry": (_OPERATORS, lambda s, hw: Call(hw.jobs, ([s.failed()],))),
    "Jobs.retry_failed": (_OPERATORS, lambda s, hw: Call(hw.jobs, (), _failed(s))),
    "Jobs.successors": (_READERS, lambda s, hw: Call(hw.jobs, (s.failed(),))),
    "Jobs.unserved": (_READERS, lambda _, hw: Call(hw.jobs)),
    "Workers.drain": (_OPERATORS, lambda s, hw: Call(hw.workers, (s.alive(),))),
    "Workers.handlers": (_READERS, lambda _, hw: Call(hw.workers)),
    "Workers.list": (_READERS, lambda _, hw: Call(hw.workers)),
    "Workers.overview": (_READERS, lambda _, hw: Call(hw.workers)),
    "Task.call": (_ALL, _task()),
    "Task.definitions": (_ALL, _task()),
    "Task.enqueue": (_PRODUCERS, _task()),
    "Task.enqueue_many": (_PRODUCERS, _task([{}, {}])),
    "Task.using": (_ALL, _task()),
    "Flow.call": (_ALL, _flow()),
    "Flow.definitions": (_ALL, _flow()),
    "Flow.enqueue": (_PRODUCERS, _flow()),
    "Flow.enqueue_many": (_PRODUCERS, _flow([{}, {}])),
    "Flow.step": (_ALL, _step),
    "Flow.chain": (_ALL, _chain),
    "Flow.using": (_ALL, _flow()),
    "Group.then": (_PRODUCERS, lambda _, hw: Call(_group(hw), (hw.tasks["tour"].call(),))),
    "Job.cancel_members": (_OPERATORS, lambda s, hw: Call(hw.job(s.follow_up()))),
    "Job.group": (_READERS, lambda s, hw: Call(hw.job(s.follow_up()))),
    "Job.members": (_READERS, lambda s, hw: Call(hw.job(s.follow_up()))),
    "Job.attempts": (_READERS, lambda s, hw: Call(hw.job(s.failed()))),
    "Job.cancel": (_OPERATORS, lambda s, hw: Call(hw.job(s.waiting()))),
    "Job.edit": (_OPERATORS, lambda s, hw: Call(hw.job(s.waiting()), ({},))),
    "Job.explain": (_READERS, lambda s, hw: Call(hw.job(s.waiting()))),
    "Job.history": (_READERS, lambda s, hw: Call(hw.job(s.failed()))),
    "Job.result": (_READERS, lambda s, hw: Call(hw.job(s.succeeded()), (DEADLINE,))),
    "Job.retry": (_OPERATORS, lambda s, hw: Call(hw.job(s.failed()))),
    "Job.status": (_READERS, lambda s, hw: Call(hw.job(s.waiting()))),
    "Queues.drain": (_OPERATORS, lambda s, hw: Call(hw.queues, (s.busy_queue(),))),
    "Queues.limit": (_OPERATORS, lambda s, hw: Call(hw.queues, (s.name(),), {"concurrency": 2})),
    "Queues.list": (_READERS, lambda _, hw: Call(hw.queues)),
    "Queues.metrics": (_READERS, lambda s, hw: Call(hw.queues, (s.busy_queue(),))),
    "Queues.move": (_OPERATORS, lambda s, hw: Call(hw.queues, (s.busy_queue(), s.name()))),
    "Queues.waiting": (_READERS, lambda s, hw: Call(hw.queues, (s.busy_queue(),))),
    "Queues.pause": (_OPERATORS, lambda s, hw: Call(hw.queues, (s.name(),))),
    "Queues.purge": (_OPERATORS, lambda s, hw: Call(hw.queues, (s.busy_queue(),))),
    "Queues.resume": (_OPERATORS, lambda s, hw: Call(hw.queues, (s.paused(),))),
    "Controls.limit": (
        _OPERATORS,
        lambda s, hw: Call(hw.controls, (), {"task": s.name(), "rate": "10/s"}),
    ),
    "Controls.list": (_READERS, lambda _, hw: Call(hw.controls)),
    "Controls.pause": (
        _OPERATORS,
        lambda s, hw: Call(hw.controls, (), {"key": s.name(), "until": "1h"}),
    ),
    "Controls.reset": (_OPERATORS, lambda s, hw: Call(hw.controls, (), {"queue": s.limited()})),
    "Controls.resume": (_OPERATORS, lambda s, hw: Call(hw.controls, (), {"queue": s.paused()})),
    "Schedules.get": (_READERS, lambda s, hw: Call(hw.schedules, (s.schedule(),))),
    "Schedules.list": (_READERS, lambda _, hw: Call(hw.schedules)),
    "Schedules.next": (_READERS, lambda s, hw: Call(hw.schedules, (s.schedule(),))),
    "Schedules.pause": (_OPERATORS, lambda s, hw: Call(hw.schedules, (s.schedule(),))),
    "Schedules.put": (_WORKERS, lambda s, hw: Call(hw.schedules, (s.name(), "greet", "@yearly"))),
    "Schedules.remove": (_WORKERS, lambda s, hw: Call(hw.schedules, (s.schedule(),))),
    "Schedules.resume": (_OPERATORS, lambda s, hw: Call(hw.schedules, (s.paused_schedule(),))),
    "Schedules.run": (_OPERATORS, lambda s, hw: Call(hw.schedules, (s.schedule(),))),
    "PulledJob.complete": (_WORKERS, lambda s, hw: Call(s.pulled(hw))),
    "PulledJob.extend": (_WORKERS, lambda s, hw: Call(s.pulled(hw))),
    "PulledJob.fail": (_WORKERS, lambda s, hw: Call(s.pulled(hw), ("boom",))),
    "PulledJob.release": (_WORKERS, lambda s, hw: Call(s.pulled(hw))),
    "PulledJob.snooze": (_WORKERS, lambda s, hw: Call(s.pulled(hw), ("1h",))),
}
# They take a row that was claimed, or the context of a handler, and ask no database.
_INSIDE = {"PulledJob.of", "Flow.state"}


def _public() -> list[str]:
    return [
        f"{kind.__name__}.{name}"
        for kind in _CLASSES
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_") and callable(member)
    ]


def _entry(name: str) -> tuple[set[str], Make]:
    return _METHODS[name.removesuffix("_sync")]


def test_every_public_method_is_in_the_table() -> None:
    assert {name.removesuffix("_sync") for name in _public()} - _INSIDE == _METHODS.keys()


async def _call(call: Call, name: str, stage: Stage) -> None:
    made = getattr(call.of, name)(*call.given, **call.named or {})
    if name == "run_worker":
        await _until_registered(made, stage)
    elif inspect.isasyncgen(made):
        async with aclosing(made):
            await anext(made)
    elif inspect.isgenerator(made):
        next(made)
        made.close()
    elif isinstance(made, Awaitable):
        await made


async def _until_registered(running: Awaitable[Any], stage: Stage) -> None:
    """Runs a worker until it is there, or has given up."""
    count = "select count(*) from worker where seen_at > %s"
    began = stage.hand.value("select clock_timestamp()")
    task = asyncio.ensure_future(running)
    await eventually(lambda: task.done() or stage.hand.value(count, began))
    if not task.done():
        task.cancel()
    with_error = await asyncio.gather(task, return_exceptions=True)
    if isinstance(with_error[0], Exception):
        raise with_error[0]


def _check_refusal(error: HeadwayError, name: str, kind: str, stage: Stage) -> None:
    assert isinstance(error, DatabaseError)
    if name.startswith("Headway.migrate"):
        assert error.sqlstate == DENIED
        assert f"migrate as the owner of schema {stage.schema}" in str(error)
        return
    assert error.sqlstate == DENIED
    login = f"{stage.schema}_{kind}_login"
    assert login in str(error)
    if not name.startswith("Headway.open"):
        assert f"run GRANT {stage.schema}_" in str(error)


# In a thread that has a loop these would run another one inside it.
_OWN_LOOP = {"Headway.run_until_idle_sync"}


@pytest.mark.parametrize("name", [name for name in _public() if name not in _INSIDE])
async def test_g16_a_role_does_its_job_and_nothing_beyond_it(stage: Stage, name: str) -> None:
    allowed, make = _entry(name)
    method = name.partition(".")[2]
    for kind in (*KINDS, STRANGER):
        hw = stage.app(kind)
        try:
            call, before = make(stage, hw), stage.contents()
            if name in _OWN_LOOP:
                doing: Any = asyncio.to_thread(getattr(call.of, method))
            else:
                doing = _call(call, method, stage)
            if kind in allowed:
                await doing
                continue
            with pytest.raises(HeadwayError) as refused:
                await doing
            _check_refusal(refused.value, name, kind, stage)
            assert stage.contents() == before, f"{kind} was refused, and changed something"
        finally:
            await hw.close()


# -- what the table does not show -----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["reader", "operator"])
async def test_a_reader_that_waits_is_notified_of_the_end(stage: Stage, kind: str) -> None:
    hw, queue = stage.app(kind), stage.busy_queue()
    (claimed,) = stage.hand.claim(queue)
    try:
        waiting = asyncio.ensure_future(hw.job(claimed["id"]).result(DEADLINE))
        awaited = "select count(*) from awaited where job_id = %s"
        await eventually(lambda: stage.hand.value(awaited, claimed["id"]))
        assert stage.hand.settle("complete", claimed, {"n": 2})
        assert await waiting == {"n": 2}
    finally:
        await hw.close()


async def test_a_producer_enqueues_in_a_transaction_of_its_own_login(stage: Stage) -> None:
    hw = stage.app("producer")
    seen = "select count(*) from jobs where id = %s"
    try:
        with psycopg.connect(stage.logins["producer"]) as conn:
            made = hw.tasks["greet"].using(conn=conn).enqueue_sync()
            assert stage.hand.value(seen, made.id) == 0
            conn.commit()
            assert stage.hand.value(seen, made.id) == 1
        async with await psycopg.AsyncConnection.connect(stage.logins["producer"]) as own:
            made = await hw.tasks["greet"].using(conn=own).enqueue()
            await own.rollback()
        assert stage.hand.value(seen, made.id) == 0
    finally:
        await hw.close()


def test_a_transaction_of_a_login_without_rights_is_told_which_role_it_needs(stage: Stage) -> None:
    hw = stage.app("reader")
    with (
        psycopg.connect(stage.logins["reader"]) as conn,
        pytest.raises(DatabaseError, match=f"needs the role {stage.schema}_producer") as refused,
    ):
        hw.tasks["greet"].using(conn=conn).enqueue_sync()
    assert refused.value.sqlstate == DENIED
    hw.close_sync()


def test_a_producer_does_not_read_the_result_of_a_job_that_it_made(stage: Stage) -> None:
    """A unique key names jobs of other producers, too."""
    hw = stage.app("producer")
    job = hw.tasks["greet"].enqueue_sync()
    with pytest.raises(DatabaseError, match=f"GRANT {stage.schema}_reader TO"):
        job.result_sync(1)
    hw.close_sync()


@pytest.mark.parametrize("kind", ["operator", "reader"])
def test_only_the_owner_chooses_the_moment(stage: Stage, kind: str) -> None:
    """An operator who could would forge when things happened."""
    job = stage.waiting()
    call = {
        "operator": "operator_cancel('[]', null, null, 'infinity')",
        "reader": f"reader_await('{job}', 'infinity')",
    }[kind]
    with (
        psycopg.connect(stage.logins[kind]) as conn,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="choose the moment"),
    ):
        conn.execute(f"select * from {stage.schema}.{call}")  # type: ignore[arg-type]
