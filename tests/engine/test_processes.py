"""Tasks in processes: as in threads, and they can be killed."""

import asyncio
import os
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from headway import Headway, Retry, Task
from headway.engine.running.processes import Child
from headway.errors import ConfigError, JobCancelled, JobFailed
from tests.core.shapes import Person
from tests.engine import process_tasks as tasks
from tests.support import DEADLINE, eventually


@pytest.fixture
def adopt(hw: Headway) -> Callable[[Task], Task]:
    """A task of the module, as one of this test's app."""

    def adopt(task: Task) -> Task:
        mine: Task = Task(hw._session, task.definition)
        hw.tasks[mine.name] = mine
        return mine

    return adopt


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_arguments_results_and_dependencies_are_as_everywhere(hw, adopt) -> None:
    ada = Person("Ada", date(1815, 12, 10), {"street": "a", "zip": None}, {"x"})
    greet, moment = adopt(tasks.greet), adopt(tasks.moment)
    job, when = await greet.enqueue(ada), await moment.enqueue(datetime(2030, 1, 2, tzinfo=UTC))
    await hw.run_until_idle(processes=1)
    assert await job.result() == Person("Ada", ada.born, ada.address, {"x", "hello"})
    assert await when.result() == datetime(2030, 1, 2, tzinfo=UTC)


async def test_the_context_is_there_too_and_the_process_is_another_that_is_kept(hw, adopt) -> None:
    whoami = adopt(tasks.whoami)
    using = whoami.using(headers={"a": "b"}, timeout="10m", retry=Retry(max_attempts=9))
    before = datetime.now(UTC)
    jobs = [await using.enqueue() for _ in range(3)]
    await hw.run_until_idle(processes=1)
    told = [await job.result() for job in jobs]
    for job, facts in zip(jobs, told, strict=True):
        assert UUID(facts["job_id"]) == job.id
        assert (facts["task"], facts["queue"], facts["attempt"]) == ("whoami", "default", 1)
        assert (facts["max_attempts"], facts["headers"]) == (9, {"a": "b"})
        deadline = datetime.fromisoformat(facts["deadline"])
        assert before < deadline < datetime.now(UTC) + timedelta(minutes=10)
    assert len({facts["pid"] for facts in told}) == 1
    assert told[0]["pid"] != os.getpid()
    assert not alive(told[0]["pid"]), "it ended with its worker"


async def test_each_outcome_leads_where_it_leads_elsewhere(dsn: str, schema: str) -> None:
    async with Headway(dsn, schema=schema, max_payload_bytes=2_000) as hw:
        outcome = hw.tasks["outcome"] = Task(hw._session, tasks.outcome.definition)
        hows = ["ok", "error", "never", "fatal", "snooze", "odd snooze", "exit", "stop"]
        hows += ["cancelled"]
        jobs = {how: await outcome.enqueue(how) for how in [*hows, "nul", "object", "big"]}
        await hw.run_until_idle(processes=2)
        told = {how: await job.status() for how, job in jobs.items()}
        ends = {how: (status.state, status.attempt) for how, status in told.items()}
        assert ends == {
            "ok": ("succeeded", 1),
            "error": ("failed", 3),
            "never": ("failed", 1),
            "fatal": ("failed", 1),
            "snooze": ("scheduled", 0),
            "odd snooze": ("failed", 1),
            "exit": ("failed", 1),
            "stop": ("failed", 3),
            "cancelled": ("failed", 3),
            "nul": ("failed", 1),
            "object": ("failed", 1),
            "big": ("failed", 1),
        }
        assert told["snooze"].run_at - told["snooze"].created_at >= timedelta(hours=1)
        error = told["error"].error
        assert (error["type"], error["message"]) == ("ValueError", "no")
        assert error["chain"] == [{"type": "OSError", "message": "cause"}]
        assert 'raise ValueError("no")' in error["traceback"]
        for how in ("nul", "object", "big"):
            assert told[how].error["type"] == "InvalidResult", how


async def test_input_that_does_not_fit_fails_at_once(hw, adopt, db) -> None:
    adopt(tasks.outcome)
    db.execute(
        """insert into job (id, run_at, created_at, max_attempts, state, queue, task, input)
           values (gen_random_uuid(), now(), now(), 5, 'r', 'default', 'outcome', '{"how": 5}')"""
    )
    await hw.run_until_idle(processes=1)
    stored = db.execute("select state, attempt, error->>'type' from jobs").fetchall()
    assert stored == [("failed", 1, "InvalidInput")]


@pytest.mark.parametrize(("how", "words"), [("signal", "by SIGKILL"), ("exit", "with exit code 7")])
async def test_g6_a_process_that_dies_costs_a_crash_and_the_job_is_tried_again(
    hw, adopt, how: str, words: str, tmp_path
) -> None:
    job = await adopt(tasks.die).enqueue(how, str(tmp_path / "mark"))
    await hw.run_until_idle(processes=1)
    assert await job.result() == 1, "no attempt was spent"
    (attempt,) = await job.attempts()
    assert attempt.error["type"] == "ProcessDied"
    assert attempt.error["message"] == f"the process that ran the job ended {words}"


async def test_a_process_that_dies_while_it_is_idle_costs_nobody_anything(hw, adopt, start) -> None:
    whoami = adopt(tasks.whoami)
    start(processes=1)
    first = await (await whoami.enqueue()).result(timeout="60s")
    os.kill(first["pid"], 9)
    stat = Path(f"/proc/{first['pid']}/stat")
    await eventually(lambda: not stat.exists() or ") Z " in stat.read_text())
    second = await whoami.enqueue()
    assert (await second.result(timeout="60s"))["pid"] != first["pid"]
    assert await second.attempts() == []


async def begun(folder: Path) -> int:
    """The pid of the process that runs `linger`, once it does."""
    await eventually(lambda: (folder / "began").exists() and (folder / "began").read_text())
    return int((folder / "began").read_text())


async def test_a_timeout_kills_the_process(hw, adopt, start, tmp_path) -> None:
    whoami, linger = adopt(tasks.whoami), adopt(tasks.linger)
    start(processes=1)
    await (await whoami.enqueue()).result(timeout="60s")  # the process is warm
    job = await linger.using(timeout="5s").enqueue(str(tmp_path))
    with pytest.raises(JobFailed, match="TimedOut"):
        await job.result(timeout="60s")
    assert not alive(await begun(tmp_path))
    assert not (tmp_path / "ended").exists()
    again = await (await whoami.enqueue()).result(timeout="60s")
    assert alive(again["pid"]), "the next job gets a new process"


async def test_progress_is_seen_and_a_cancellation_kills_the_process(
    hw, adopt, start, tmp_path
) -> None:
    linger = adopt(tasks.linger)
    start(processes=1)
    job = await linger.enqueue(str(tmp_path))
    pid = await begun(tmp_path)

    async def progress() -> dict | None:
        return (await job.status()).progress

    assert await eventually(progress) == {"percent": 10.0, "message": "began"}
    assert await job.cancel() is True
    with pytest.raises(JobCancelled):
        await job.result(timeout="60s")
    assert not alive(pid)
    assert not (tmp_path / "ended").exists()


async def test_g11_a_stop_kills_the_process_and_the_job_goes_back_unharmed(
    hw, adopt, start, tmp_path
) -> None:
    linger = adopt(tasks.linger)
    running = start(processes=1, grace="100ms")
    job = await linger.enqueue(str(tmp_path))
    pid = await begun(tmp_path)
    await running.stop()
    assert not alive(pid)
    status = await job.status()
    assert (status.state, status.attempt) == ("ready", 0)


@pytest.mark.slow
async def test_no_more_processes_run_than_there_may_be(hw, adopt, tmp_path) -> None:
    overlap, narrow = adopt(tasks.overlap), adopt(tasks.narrow)
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    wide = await overlap.enqueue_many({"folder": str(two), "n": n} for n in range(12))
    slim = await narrow.enqueue_many({"folder": str(one), "n": n} for n in range(6))
    await hw.run_until_idle(processes=2)
    assert max([await job.result() for job in wide]) <= 2
    assert {await job.result() for job in slim} == {1}


async def test_g11_jobs_that_wait_for_a_process_go_back_when_the_worker_stops(
    hw, adopt, start, tmp_path
) -> None:
    linger = adopt(tasks.linger)
    running = start(processes=1, grace="100ms")
    jobs = [await linger.enqueue(str(tmp_path)) for _ in range(5)]
    await begun(tmp_path)
    await asyncio.wait_for(running.stop(), DEADLINE)
    assert [((await j.status()).state, (await j.status()).attempt) for j in jobs] == [
        ("ready", 0)
    ] * 5


def test_a_task_that_its_process_could_not_find_is_refused_when_the_worker_starts(hw) -> None:
    def renamed() -> None: ...

    renamed.__qualname__ = "renamed"
    renamed.__module__ = tasks.__name__
    hw.task(executor="process")(renamed)
    with pytest.raises(ConfigError, match="renamed"):
        hw.worker()


async def test_r16_a_dead_child_is_waited_for_off_the_loop(
    hw, adopt, monkeypatch, tmp_path
) -> None:
    reaped: list[int] = []
    reap = Child.reap

    def observed(child: Child) -> None:
        reaped.append(threading.get_ident())
        reap(child)

    monkeypatch.setattr(Child, "reap", observed)
    once = Retry(max_attempts=1, max_crashes=1)
    dies = await adopt(tasks.die).using(retry=once).enqueue("exit", str(tmp_path / "mark"))
    hangs = await adopt(tasks.linger).using(retry=once, timeout=0.01).enqueue(str(tmp_path))
    await hw.run_until_idle(processes=2)
    kinds = [(await job.status()).error["type"] for job in (dies, hangs)]
    assert kinds == ["ProcessDied", "TimedOut"]
    assert len(reaped) == 2
    assert threading.get_ident() not in reaped
