"""`headway check`: jobs and schedules that new code would not run are found before the deploy."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from headway import Headway
from tests.cli.conftest import Command

_APP = "tests.cli.checked:hw"


@pytest.fixture
def check(headway: Command):
    def run(*words: str, code: int = 0) -> Any:
        sys.modules.pop("tests.cli.checked", None)  # an app is redirected before its first use
        answer = json.loads(headway("check", _APP, *words, "--json", code=code).stdout)
        assert answer["ok"] == (code == 0)
        return answer["report"]

    return run


async def test_jobs_that_would_run_leave_nothing_to_find(hw: Headway, check, db) -> None:
    for task, input_ in (
        ("greet", {"name": "a"}),
        ("hello", {"who": "a"}),
        ("welcome", {"recipient": "a"}),
    ):
        await hw.jobs.enqueue(task, input_)
    report = check()
    assert (report["jobs"], report["schedules"], report["complete"]) == (3, 0, True)
    assert report["findings"] == []


async def test_what_would_fail_is_grouped_with_its_reason(hw: Headway, check, db) -> None:
    for n in range(5):
        await hw.jobs.enqueue("welcome", {"email": str(n)})
    unknown = await hw.jobs.enqueue("gone")
    db.execute(
        "insert into job (id, run_at, created_at, max_attempts, state, queue, task, step, input, carried)"
        " select gen_random_uuid(), now(), now(), 1, 'r', 'q', 'shop', step,"
        " '{\"order\": 1}', carried::jsonb"
        " from (values ('send', '{}'), ('pay', '{\"items\": \"many\"}'), ('pay', '{}')) v(step, carried)"
    )
    await hw.schedules.put("nightly", "gone", "@daily", check=False)
    report = check(code=1)
    found = {
        (each["problem"], each["of"], each["task"], each["step"]): each
        for each in report["findings"]
    }
    assert {key: each["count"] for key, each in found.items()} == {
        ("invalid input", "job", "welcome", ""): 5,
        ("unknown task", "job", "gone", ""): 1,
        ("unknown task", "schedule", "gone", ""): 1,
        ("unknown step", "job", "shop", "send"): 1,
        ("invalid state", "job", "shop", "pay"): 1,
    }
    assert len(found["invalid input", "job", "welcome", ""]["samples"]) == 3
    assert found["unknown task", "job", "gone", ""]["samples"] == [str(unknown.id)]
    assert found["unknown task", "schedule", "gone", ""]["samples"] == ["nightly"]


async def test_jobs_of_other_queues_are_left_out_and_the_reading_is_bounded(
    hw: Headway, check
) -> None:
    for n in range(3):
        await hw.jobs.enqueue("gone", queue=f"q{n}")
    assert check("-q", "q1", code=1)["jobs"] == 1
    assert check("-q", "other")["complete"]
    report = check("--limit", "2", code=1)
    assert (report["jobs"], report["complete"]) == (2, False)


async def test_schedules_that_a_deploy_writes_or_removes_are_left_out(
    hw: Headway, check, db
) -> None:
    for name in ("welcome", "stale"):
        await hw.schedules.put(name, "gone", "@daily", check=False)
    db.execute("update schedule set declared = true, owner = ''")
    assert check()["schedules"] == 0


def test_people_get_a_table(app: Headway, headway: Command) -> None:
    app.jobs.enqueue_sync("gone")
    sys.modules.pop("tests.cli.checked", None)
    shown = headway("check", _APP, code=1).stdout
    assert "unknown task" in shown
    assert "gone" in shown
