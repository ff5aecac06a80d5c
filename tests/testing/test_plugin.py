"""The pytest plugin on a user's project, in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_APP = """
from headway import Headway

hw = Headway("postgresql://nobody@127.0.0.1:1/production")


@hw.task
def add(a: int, b: int) -> int:
    return a + b


@hw.task(executor="process")
def remote(n: int) -> int:
    return add.enqueue_sync(n, n).created + n
"""

_TESTS = """
import pytest
from app import add, hw, remote


@pytest.mark.parametrize("n", range({count}))
def test_add(headway, n):
    assert headway.enqueued() == []
    job = add.enqueue_sync(n, 1)
    headway.run_until_idle_sync()
    assert job.result_sync() == n + 1


def test_a_child_process_uses_the_same_schema(headway):
    remote.enqueue_sync(3)
    headway.run_until_idle_sync(processes=1)
    assert headway.assert_enqueued(add, a=3).state == "succeeded"

"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(_APP)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    return tmp_path


def _pytest(project: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *args],
        cwd=project,
        env=kept | env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def _outcomes(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout.strip().splitlines()[-1].partition(" in ")[0]


@pytest.mark.slow
def test_xdist_workers_do_not_disturb_each_other(project: Path, dsn: str) -> None:
    (project / "test_app.py").write_text(_TESTS.format(count=4))
    done = _pytest(project, "-n", "2", HEADWAY_TEST_DSN=dsn)
    assert _outcomes(done) == "5 passed", done.stdout


@pytest.mark.slow
@pytest.mark.embedded_only
def test_a_project_without_a_database_gets_one(project: Path) -> None:
    (project / "test_app.py").write_text(_TESTS.format(count=1))
    done = _pytest(project, "-k", "test_add", HEADWAY_TEST_DSN="")
    assert _outcomes(done).startswith("1 passed"), done.stdout
    assert (project / ".pytest_cache/d/headway").is_dir()


def test_a_job_that_failed_unseen_fails_its_test(project: Path, dsn: str) -> None:
    (project / "test_app.py").write_text(
        "import asyncio\n"
        "from app import hw\n\n"
        "@hw.task(retry=1)\n"
        "def fail() -> None:\n"
        '    raise ValueError("broken")\n\n'
        "def test_unseen(headway):\n"
        "    fail.enqueue_sync()\n"
        "    hw.run_until_idle_sync()\n"
    )
    done = _pytest(project, HEADWAY_TEST_DSN=dsn)
    assert _outcomes(done) == "1 passed, 1 error"
    assert "attempt 1 of fail" in done.stdout


def test_pytest_imports_nothing_of_headway_until_a_test_uses_it(project: Path) -> None:
    (project / "test_none.py").write_text(
        "import sys\n\n"
        "def test_none(request):\n"
        '    assert request.config.pluginmanager.has_plugin("headway")\n'
        '    assert not [name for name in sys.modules if name.split(".")[0] == "headway"]\n'
    )
    assert _outcomes(_pytest(project)) == "1 passed"
