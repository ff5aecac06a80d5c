"""The tests of the project in `project/`, by Django's own runner. Settings belong to a process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.examples.markdown import ROOT

DEADLINE = 240.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["backend", "connections", "project"])
def test_the_tests_of_a_project_pass(name: str, dsn: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "django", "test", "--noinput", f"tests.django.project.test_{name}"],
        cwd=ROOT,
        env=os.environ
        | {"DJANGO_SETTINGS_MODULE": "tests.django.project.settings", "HEADWAY_TEST_DJANGO": dsn},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nOK" in done.stderr, "it has run tests"
