"""Settings reach apps, their tasks, their workers and the processes of those."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headway import Headway, Retention, Task
from headway.errors import ConfigError
from tests.fixtures.processes import WorkerProcess
from tests.settings import process_app
from tests.settings.conftest import Project
from tests.support import DEADLINE

_ROOT = Path(__file__).parents[2]


def test_importing_tasks_reads_no_file_and_the_first_use_does(project: Project) -> None:
    file = project.write("headway.toml", "broken")
    project.write(
        "app.py",
        "from headway import Headway\nhw = Headway(pool_size=2)\n"
        "@hw.task(keep='1d')\nasync def work(): ...\nflow = hw.flow('flow')\n"
        "@flow.step\nasync def step(): ...\nprint('imported', flush=True)\nhw.dsn\n",
    )
    ran = subprocess.run([sys.executable, "app.py"], capture_output=True, text=True, check=False)
    assert ran.stdout == "imported\n"
    assert f"headway.errors.ConfigError: {file} is not valid TOML" in ran.stderr


def test_a_library_s_app_is_configured_where_the_process_runs_and_not_where_the_library_is(
    project: Project,
) -> None:
    project.write("library/tasks.py", "from headway import Headway\nhw = Headway()\n")
    project.write("library/headway.toml", "pool_size = 3")
    project.write("headway.toml", "pool_size = 2")
    program = "import tasks; print(tasks.hw.settings['pool_size'].value)"
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.append('library'); {program}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("2\n", "")


def test_what_a_task_keeps_is_configured_unless_it_says_otherwise(project: Project) -> None:
    hw = Headway()

    @hw.task
    def plain() -> None: ...

    @hw.task(keep="1h")
    def hour() -> None: ...

    @hw.task(keep=Retention(failed="none"))
    def own() -> None: ...

    project.write("headway.toml", "[retention]\nsucceeded = '2d'\nfailed = '3d'")
    assert plain.definition.keep == Retention(succeeded="2d", failed="3d")
    assert hour.definition.keep == Retention(succeeded="1h", failed="3d")
    assert own.definition.keep == Retention(succeeded="2d", failed="none")


def test_a_retention_in_code_leaves_to_the_file_what_it_does_not_set(project: Project) -> None:
    project.write("headway.toml", "[retention]\nsucceeded = '2d'\nfailed = '3d'")
    assert Headway(retention=Retention(failed="5d")).retention == Retention(
        succeeded="2d", failed="5d"
    )


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"schema": "A b"}, "schema 'A b' must be up to 48"),
        ({"pool_size": 0}, "pool_size 0 must be at least 1"),
        ({"pool_size": "3"}, "code: pool_size = '3' is invalid: expected a whole number"),
        ({"worker": {"lease": "9ms"}}, "lease '9ms' must be at least a second"),
        ({"worker": {"laese": 3}}, "worker.laese = 3 is not a setting; did you mean worker.lease?"),
        ({"worker": 3}, "worker=3 is not a mapping of options"),
        ({"retention": {"succeeded": "3d"}}, "write it like Retention(succeeded='3d')"),
        (
            {"worker": {"queues": 3}},
            "worker.queues = 3 is invalid: expected a table",
        ),
    ],
)
def test_what_cannot_be_in_code_is_refused_where_it_is_written(
    project: Project, options: dict[str, object], complaint: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        Headway(**options)  # type: ignore[arg-type]
    assert complaint in str(raised.value)


def test_what_cannot_be_for_a_worker_is_refused_before_it_runs(project: Project) -> None:
    hw = Headway("postgresql://nowhere")

    @hw.task
    def work() -> None: ...

    with pytest.raises(ConfigError, match=r"worker\.concurency = 3 is not a setting; did you mean"):
        hw.worker(concurency=3)  # type: ignore[call-arg]
    project.write("headway.toml", "[worker]\nconcurrency = 3")
    assert hw.settings["worker.concurrency"].value == 100, "read before the file was there"


def test_what_someone_should_know_is_logged_once_for_an_app(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    project.write("headway.toml", "")
    project.write("pyproject.toml", "[tool.headway]")
    hw = Headway()
    assert (hw._session.schema, hw._session.max_payload_bytes) == ("headway", 16 * 1024 * 1024)
    assert [record.name for record in caplog.records] == ["headway.settings"]
    assert "keep only one" in caplog.text


async def test_an_app_uses_what_is_configured(
    project: Project, dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("headway.toml", f"schema = '{schema}'\n[worker]\nqueues = ['served']\n")
    monkeypatch.setenv("DATABASE_URL", dsn)
    async with Headway() as hw:

        @hw.task(queue="served")
        async def served() -> str:
            return "done"

        @hw.task(queue="other")
        async def other() -> None: ...

        job, left = await served.enqueue(), await other.enqueue()
        await hw.run_until_idle()
        assert await job.result() == "done"
        assert (await left.status()).state == "ready"
        await hw.run_until_idle(queues={"other": 1})
        assert (await left.status()).state == "succeeded"


async def test_a_process_of_a_worker_looks_for_its_file_where_the_worker_did(
    project: Project, dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("headway.toml", f"schema = '{schema}'\npool_size = 7")
    elsewhere = project.write("elsewhere/headway.toml", "pool_size = 8").parent
    monkeypatch.setenv("HEADWAY_DATABASE_URL", dsn)
    async with Headway() as hw:
        task: Task[[], int] = Task(hw._session, process_app.pool_size.definition)
        hw.tasks[task.name] = task
        job = await task.enqueue()
        monkeypatch.chdir(elsewhere)
        await hw.run_until_idle(processes=1)
        assert await job.result() == 7


def test_a_process_of_a_worker_is_where_the_command_line_says(
    spawn_worker: Callable[..., WorkerProcess], dsn: str, schema: str
) -> None:
    """The command line goes before code, in the processes that import the code again as well."""
    spawn_worker(
        "tests.settings.process_app:hw",
        "--dsn",
        dsn,
        "--schema",
        schema,
        dsn="postgresql://127.0.0.1:1/of-the-environment",
    )
    with Headway(dsn, schema=schema) as hw:
        tasks = (process_app.where, process_app.where_in_a_process)
        jobs = [Task(hw._session, task.definition).enqueue_sync() for task in tasks]
        assert [job.result_sync(timeout=DEADLINE) for job in jobs] == [[dsn, schema]] * 2
