"""The sentences that commands print, each in one place. Other tests assert JSON, states and codes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest
from rich.table import Table

from headway import Fatal, Headway, Limit, Schedule
from headway.store.statements import fleet
from tests.cli.conftest import APP, Command

EMPTY = {
    "job list": "no jobs",
    "job list --task send": "no jobs match",
    "job retry --task send": "no failed jobs match",
    "errors": "no failures",
    "queue list": "no queues with unfinished jobs, pauses or limits",
    "queue limits": "no pauses and no limits",
    "queue metrics": "no queue has ever had jobs",
    "queue purge mail": "no jobs waiting in queue mail",
    "queue move mail slow": "no jobs waiting in queue mail",
    "schedule list": "no schedules; declare one with @hw.task(schedule=...) or add one with "
    "`headway schedule put`",
    "schedule next 1999-01-01T00:00": "no more runs",
    "worker-list": "no workers in the last hour; start one: headway worker module:hw",
}

REPORTS = [
    # Jobs.
    ("job cancel {send}", 0, "cancelled job {send}"),
    ("job cancel {send}", 1, "error: job {send} was not cancelled: its state is cancelled"),
    ("job retry {send}", 0, "retried job {send}: it is now ready"),
    ("job retry {order}", 0, "retried job {order}: it is now ready at step pay"),
    ("job retry {done}", 1, "error: job {done} was not retried: its state is succeeded"),
    (
        "job retry {failed} --from-step pack",
        1,
        "error: job {failed} was not retried: it was never at step 'pack'",
    ),
    (
        "job retry --task fail",
        2,
        "error: not retried: no terminal to confirm on; use --yes to retry 2 jobs",
    ),
    ("job retry --task fail --limit 1 --yes", 0, "retried 1 job"),
    (
        "job edit {done} {{}}",
        1,
        "error: job {done} was not edited: its state is succeeded; only waiting, failed, cancelled "
        "and expired jobs can be edited",
    ),
    (
        "job edit {send} {{}}",
        0,
        "note: the input was not checked; --app module:hw checks it against the task",
    ),
    (
        "job edit {send}",
        2,
        "error: no terminal to edit on; give the input as JSON, or - to read standard input",
    ),
    ("job show {missing}", 1, "error: no job {missing}"),
    ("job enqueue send --unique k", 0, ""),
    (
        "job enqueue send --unique k",
        1,
        "holds the unique key 'k'; cancel it or use another key",
    ),
    (
        "job enqueue send --unique k --on-taken replace",
        0,
        "holds the unique key 'k'; its call was replaced",
    ),
    ("job enqueue sendd", 0, "note: no worker has declared task 'sendd' yet"),
    # Queues.
    (
        "queue purge mail",
        2,
        "error: not purged: no terminal to confirm on; use --yes to purge 3 jobs",
    ),
    ("queue move mail slow --yes", 0, "moved 3 jobs"),
    ("queue pause slow", 0, "queue slow is paused; resume it with `headway queue resume slow`"),
    (
        "queue pause slow --until 90m",
        0,
        "queue slow is paused for 1h 30m; resume it earlier with `headway queue resume slow`",
    ),
    (
        "queue pause slow --until 2999-01-31T08:00:00Z",
        0,
        "queue slow is paused until 2999-01-31 08:00:00+00:00; resume it earlier with "
        "`headway queue resume slow`",
    ),
    ("queue resume slow", 0, "queue slow is resumed"),
    (
        "queue resume slow",
        1,
        "error: queue slow was not paused; `headway queue limits` lists all pauses",
    ),
    ("queue limit slow --concurrency 3", 0, "queue slow: 3 at once"),
    ("queue limit slow --reset", 0, "queue slow: no limit"),
    (
        "queue limit slow --reset",
        1,
        "error: no limit to reset; `headway queue limits` lists all limits",
    ),
    (
        "queue limit --task order --concurrency 1",
        2,
        "error: order is a flow, and limits apply to steps; limit one of them: --task order/pay",
    ),
    (
        "queue drain slow --timeout 0s",
        0,
        "queue slow is drained and paused; resume it with `headway queue resume slow`",
    ),
    (
        "queue drain held --timeout 0s",
        1,
        "error: queue held is paused, but 1 job did not finish in time; "
        "`headway job list --queue held --state running` lists running jobs",
    ),
    ("job cancel {held}", 0, "asked job {held} to stop; it is running on worker {worker}"),
    (
        "queue metrics mial",
        0,
        "queue mial has never had jobs; `headway queue list` shows the queues",
    ),
    # Schedules.
    (
        "schedule pause nightly",
        0,
        "schedule nightly is paused; resume it with `headway schedule resume nightly`",
    ),
    ("schedule next nightly", 0, "it does not run until it is resumed"),
    ("schedule resume nightly", 0, "schedule nightly is resumed"),
    (
        "schedule resume nightly",
        1,
        "error: schedule nightly was not paused; `headway schedule list` shows pauses",
    ),
    ("schedule run nightly", 0, ""),
    ("schedule run nightly", 0, "of the schedule has not finished"),
    ("schedule put x send @daily", 0, "schedule x runs next at "),
    (
        "schedule put y send 1999-01-01T00:00",
        2,
        "error: schedule 'y' would never run: '1999-01-01T00:00' is in the past; "
        "give it a future time",
    ),
    ("schedule remove x", 0, "schedule x is removed"),
    ("schedule remove x", 1, "error: no schedule 'x'; `headway schedule list` shows all"),
    # Workers.
    ("worker-drain {worker}", 0, "asked worker {worker} to drain"),
    ("worker-drain {worker} --wait 0s", 1, "worker {worker} is still draining"),
    ("worker-drain {worker} --wait 0s", 1, "error: worker {worker} did not exit within 0ms"),
    (
        "worker-drain 999999 888888",
        1,
        "error: not alive: worker 999999, worker 888888; `headway worker-list` shows the workers.",
    ),
]
"""In this order. A part of the output is enough where the rest is an id or a time."""

USAGE = {
    "job enqueue t [1]": "the arguments must be a JSON object",
    "job enqueue t {oops": "the arguments are not valid JSON",
    "job enqueue t --at noon": "'noon' is not a time; expected one like 2030-01-31T08:00:00+01:00",
    "job enqueue t --at 2030-01-31T08:00:00": "has no time zone; add Z or an offset like +01:00",
    "job enqueue t --header x": "'x' is not a header; expected NAME=VALUE",
    "job enqueue t --limit 2": "--limit and --ordered need --concurrency-key",
    f"job enqueue t --no-keys --app {APP}": "--limit-key and --no-keys cannot be used with --app",
    "job retry": "give job ids, or select failed jobs by --task, --step, --error or --since",
    "job retry 0199a5f0-0000-7000-8000-000000000000 --task t": "not both",
    "queue limit mail": "give --concurrency, --rate or both; or --none; or --reset",
    "errors --group --follow": "--group cannot be used with --follow",
}

TABLES = [
    "job list",
    "job show {order}",
    "queue list",
    "queue limits",
    "queue metrics",
    "schedule list",
    "schedule next nightly",
    "errors --group",
    "worker-list",
    "health",
    "config",
]


@pytest.fixture
def names(app: Headway, db: psycopg.Connection[Any]) -> dict[str, object]:
    """A schema with a job of every kind, a schedule and a worker; what they are called."""

    @app.task(queue="mail")
    async def send() -> None: ...

    @app.task(limit=Limit(concurrency=9))
    async def done() -> None: ...

    @app.task
    async def fail() -> None:
        raise Fatal("no")

    @app.task(queue="held")
    async def held() -> None: ...

    @app.task(schedule=Schedule("@daily", name="nightly", overlap="skip"))
    async def report() -> None: ...

    flow = app.flow("order")

    @flow.step
    async def pay() -> None:
        raise Fatal("no")

    jobs = {"done": done, "failed": fail, "order": flow}
    ids = {name: task.enqueue_sync().id for name, task in jobs.items()}
    fail.enqueue_sync()
    app.run_until_idle_sync()
    row = fleet.register("elsewhere:1", "0", 10, ["mail"], ["send"], 600, None)
    worker = app._session.client.run_sync(row)
    ids["held"] = held.enqueue_sync().id
    db.execute("update job set state = 'x', worker_id = %s, claim = 1, attempt = 1", [worker])
    send.using(delay="1h").enqueue_sync()
    ids["send"] = send.enqueue_sync().id
    return ids | {"worker": worker, "missing": UUID(int=7)}


def test_an_empty_database_is_described(headway: Command) -> None:
    said = {command: headway(*command.split(), code=0).stdout.strip() for command in EMPTY}
    assert said == EMPTY


def test_every_change_is_reported(headway: Command, names: dict[str, object]) -> None:
    for command, code, words in REPORTS:
        said = headway(*command.format(**names).split(), code=code)
        shown = " ".join((said.stdout + said.stderr).split())
        assert words.format(**names) in shown, command


def test_a_wrong_value_is_answered_with_what_to_give(headway: Command) -> None:
    for command, words in USAGE.items():
        shown = " ".join(headway(*command.split(), code=2).stderr.split())
        assert words in shown, command


@pytest.mark.usefixtures("at_terminal")
def test_a_person_is_asked(headway: Command, names: dict[str, object]) -> None:
    said = headway("queue", "purge", "mail", stdin="n\n", code=1)
    assert said.stdout.startswith("2 jobs waiting in queue mail:\n")
    assert said.stderr == "Purge 2 jobs? [y/N]: n\nerror: not purged\n"
    said = headway("job", "retry", "--task", "order", stdin="y\n")
    assert said.stdout.startswith("1 failed job, the oldest failed ")
    assert said.stdout.endswith("retried 1 job\n")


def test_every_column_has_a_heading(
    headway: Command, names: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    add_column = Table.add_column

    def add(table: Table, header: Any = "", *words: Any, **options: Any) -> None:
        if table.show_header:
            drawn.append(str(header))
        add_column(table, header, *words, **options)

    monkeypatch.setattr(Table, "add_column", add)
    for command in TABLES:
        drawn.clear()
        headway(*command.format(**names).split())
        assert drawn, command
        assert all(drawn), command
