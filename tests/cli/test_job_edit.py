"""`job edit`: another input for a job that failed or waits."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from headway import Headway, Job
from tests.cli.conftest import APP, Command

CHECKED = ("--app", APP)


@pytest.fixture
def job(app: Headway) -> Job[Any]:
    """A job of `add` that failed: its input does not fit."""

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    job = add.enqueue_sync(1, 2)
    job.edit_sync({"a": 1, "b": "two"}, check=False)
    app.run_until_idle_sync()
    assert job.status_sync().error is not None
    return job


def test_the_old_and_the_new_input_are_shown_and_that_it_was_not_checked(
    headway: Command, job: Job[Any]
) -> None:
    result = headway("job", "edit", job.id, '{"a": 1, "b": 3}')
    assert result.stdout == (
        f'old: {{"a":1,"b":"two"}}\nnew: {{"a":1,"b":3}}\njob {job.id} is failed\n'
    )
    assert "--app module:hw" in result.stderr
    assert job.status_sync().input == {"a": 1, "b": 3}


def test_with_retry_it_runs_with_the_new_input(
    headway: Command, job: Job[Any], app: Headway
) -> None:
    result = headway("job", "edit", job.id, "-", "--retry", *CHECKED, stdin='{"a": 1, "b": 4}')
    assert result.stdout.endswith(f"job {job.id} is ready\n")
    assert result.stderr == ""
    app.run_until_idle_sync()
    assert job.result_sync(timeout="60s") == 5


def test_with_the_app_what_does_not_fit_is_refused(headway: Command, job: Job[Any]) -> None:
    refused = headway("job", "edit", job.id, '{"a": 1, "b": "three"}', *CHECKED, code=2)
    assert "Expected `int`, got `str`" in refused.stderr
    refused = headway("job", "edit", job.id, '{"a": 1}', *CHECKED, code=2)
    assert "missing a required argument: 'b'" in refused.stderr
    assert job.status_sync().input == {"a": 1, "b": "two"}


def test_programs_are_told_both_inputs(headway_json: Callable[..., Any], job: Job[Any]) -> None:
    assert headway_json("job", "edit", job.id, '{"a": 0}', "--retry") == {
        "id": str(job.id),
        "edited": True,
        "checked": False,
        "old": {"a": 1, "b": "two"},
        "new": {"a": 0},
        "state": "ready",
    }


def test_what_runs_is_not_edited(
    headway: Command, job: Job[Any], db: psycopg.Connection[Any]
) -> None:
    job.retry_sync()
    db.execute("update job set state = 'x', worker_id = 77, claim = claim + 1, attempt = 1")
    headway("job", "edit", job.id, '{"a": 1, "b": 3}', code=1)
    assert job.status_sync().input == {"a": 1, "b": "two"}


def test_what_is_no_input_is_exit_code_2(headway: Command, job: Job[Any]) -> None:
    for words in (["[1]"], ["{oops"], []):
        headway("job", "edit", job.id, *words, code=2)
    assert job.status_sync().input == {"a": 1, "b": "two"}


def test_no_such_job_is_exit_code_1(headway: Command) -> None:
    headway("job", "edit", uuid4(), "{}", code=1)


def _editor(place: Path, code: str) -> str:
    """An editor that does this to the text of its file."""
    script = place / "editor.py"
    script.write_text(
        "import os, sys\nfrom pathlib import Path\nfile = Path(sys.argv[1])\n"
        f"text = file.read_text()\n{code}\nfile.write_text(text)\n"
        "os.utime(file)\n"
    )
    return shlex.join([sys.executable, str(script)])


@pytest.mark.usefixtures("at_terminal")
def test_at_a_terminal_the_present_input_is_edited_until_it_fits(
    headway: Command, job: Job[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first time it is left with a mistake, the second time it is put right."""
    editor = _editor(
        tmp_path,
        "text = text.replace('oops', '2') if 'oops' in text else text.replace('\"two\"', 'oops')",
    )
    monkeypatch.setenv("VISUAL", editor)
    headway("job", "edit", job.id, stdin="y\n")
    assert job.status_sync().input == {"a": 1, "b": 2}


@pytest.mark.usefixtures("at_terminal")
def test_at_a_terminal_an_input_that_is_left_alone_stays(
    headway_json: Callable[..., Any], job: Job[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "true")
    assert headway_json("job", "edit", job.id)["edited"] is False
