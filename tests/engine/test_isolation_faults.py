"""Isolated jobs that kill their process or are killed, and definitions that a child cannot find."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway import Headway
from headway.core import failure
from headway.core.verdict import Broke
from headway.errors import ConfigError
from tests.engine import isolated_tasks as tasks
from tests.engine.bench import Bench, alive, value
from tests.support import eventually

# -- dying ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "how", "words"),
    [
        (tasks.die, "exit", "with exit code 9"),
        (tasks.die, "kill", "by SIGKILL"),
        (tasks.die, "segfault", "by SIGSEGV"),
        (tasks.die_in_thread, "exit", "with exit code 9"),
    ],
)
async def test_b1_a_job_that_kills_its_process_is_found_guilty_and_the_worker_lives(
    bench: Bench, task: Any, how: str, words: str
) -> None:
    outcome = await bench.run(task, how)
    assert isinstance(outcome, Broke)
    assert outcome.error["type"] == failure.PROCESS_DIED
    assert words in outcome.error["message"]
    assert outcome.again
    assert bench.isolation.free == 1
    assert value(await bench.run(tasks.on_loop, "next")) == "next"


async def test_a_death_is_noticed_while_a_fork_of_the_process_lives_on(
    bench: Bench, tmp_path: Path
) -> None:
    outcome = await bench.run(tasks.fork_and_die, str(tmp_path))
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert isinstance(outcome, Broke)
    assert outcome.error["type"] == failure.PROCESS_DIED


async def test_a_process_that_dies_while_it_is_idle_costs_nobody_anything(bench: Bench) -> None:
    pid = value(await bench.run(tasks.facts))["pid"]
    os.kill(pid, signal.SIGKILL)
    stat = Path(f"/proc/{pid}/stat")
    await eventually(lambda: not stat.exists() or ") Z " in stat.read_text())
    assert value(await bench.run(tasks.facts))["pid"] != pid


async def begun(folder: Path) -> int:
    """The pid of the process that runs `linger`, once it does."""
    await eventually(lambda: (folder / "began").exists() and (folder / "began").read_text())
    return int((folder / "began").read_text())


async def test_progress_arrives_and_cancelling_kills_the_process(
    bench: Bench, tmp_path: Path
) -> None:
    running = await bench.claimed(tasks.linger.definition, str(tmp_path))
    assert bench.isolation.free == 1
    waiting = asyncio.create_task(bench.isolated(running))
    pid = await begun(tmp_path)
    await eventually(lambda: bench.noted == [{"percent": 10.0, "message": "began"}])
    assert bench.isolation.free == 0
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not alive(pid)
    assert bench.isolation.free == 1


async def test_g11_sigterm_to_the_whole_group_is_not_a_crash(bench: Bench, tmp_path: Path) -> None:
    running = await bench.claimed(tasks.linger.definition, str(tmp_path))
    waiting = asyncio.create_task(bench.isolated(running))
    pid = await begun(tmp_path)
    os.kill(pid, signal.SIGTERM)
    (tmp_path / "end").touch()
    assert value(await waiting) == "ended"
    await eventually(lambda: bench.isolation.free == 1)
    assert value(await bench.run(tasks.facts))["pid"] != pid, "it ended when it had nothing to do"


# -- finding the definition -----------------------------------------------------------------------


async def test_a_task_that_only_the_app_has_runs_where_the_app_can_be_loaded(bench: Bench) -> None:
    bench.load_again = tasks.load
    (made,) = [task for name, task in tasks.app.tasks.items() if name == "made"]
    (definition,) = made.definitions()
    assert bench.isolation.can_run(definition)
    assert value(await bench.isolated(await bench.claimed(definition, 1))) == 2


def test_a_task_that_a_child_cannot_find_is_not_for_isolation(
    bench: Bench, hw: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    @hw.task
    async def local() -> None: ...

    assert bench.isolation.can_run(tasks.on_loop.definition)
    assert bench.isolation.can_run(tasks.take.definition)
    assert not bench.isolation.can_run(local.definition)

    import __main__

    async def typed_in() -> None: ...

    typed_in.__module__, typed_in.__qualname__ = "__main__", "typed_in"
    task = hw.task(typed_in)
    monkeypatch.setattr(__main__, "typed_in", task, raising=False)
    monkeypatch.setattr(__main__, "__spec__", None, raising=False)
    monkeypatch.setattr(__main__, "__file__", "script.py", raising=False)
    assert bench.isolation.can_run(task.definition)
    monkeypatch.delattr(__main__, "__file__")
    assert not bench.isolation.can_run(task.definition), "nothing to import it from"


@pytest.mark.parametrize(
    ("load", "kind", "words"),
    [
        (tasks.load_badly, "ImportError", "no module named nonsense"),
        (tasks.load_and_die, "headway.errors.ConfigError", "ended with exit code 3 before"),
    ],
)
async def test_an_app_that_cannot_be_imported_is_not_the_fault_of_the_job(
    bench: Bench, load: Callable[[], Headway], kind: str, words: str
) -> None:
    bench.load_again = load
    running = await bench.claimed(tasks.on_loop.definition, "ok")
    outcome = await bench.isolation.outcome(running, bench)
    assert bench.begins == 0
    assert isinstance(outcome, Broke)
    assert outcome.error["type"] == kind
    assert words in outcome.error["message"]
    assert outcome.again


async def test_a_child_that_cannot_be_started_is_not_the_fault_of_the_job(bench: Bench) -> None:
    bench.load_again = lambda: tasks.app  # which cannot be sent
    running = await bench.claimed(tasks.on_loop.definition, "ok")
    outcome = await bench.isolation.outcome(running, bench)
    assert bench.begins == 0
    assert isinstance(outcome, Broke)
    assert outcome.error["type"] == "headway.errors.ConfigError"
    assert outcome.again


def test_a_child_that_imports_a_script_does_not_become_a_worker(
    hw: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    hw.task(tasks.square)
    # As multiprocessing marks a child until its main module is imported.
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(ConfigError, match="__main__"):
        hw.worker()
