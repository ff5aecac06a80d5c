"""`headway schedule`: tables for people, JSON for programs, and exit codes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from headway import Headway, Schedule
from headway.cli.schedule.next import noted
from headway.core import cron
from headway.schedules import preview
from tests.cli.conftest import APP, Command

Json = Callable[..., Any]


def declare(app: Headway, *schedules: Schedule) -> Headway:
    """An app whose worker has written down what it declares."""

    @app.task(schedule=list(schedules))
    async def report(region: str = "eu") -> str:
        return region

    app.run_until_idle_sync()
    return app


# -- list -----------------------------------------------------------------------------------------


def test_no_schedules_is_no_error(headway_json: Json) -> None:
    assert headway_json("schedule", "list") == []


def test_schedules_are_listed_with_when_they_are_due(
    headway: Command, headway_json: Json, app: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "220")
    ends = datetime(2099, 1, 1, tzinfo=UTC)
    rules = Schedule(
        "0 8 * * *[Asia/Kathmandu]", name="morning", input={"region": "us"}, overlap="skip"
    )
    declare(app, rules, Schedule("@daily", jitter="5m", ends_at=ends, catch_up="all"))
    app.schedules.put_sync("by hand", "report", "@hourly")
    app.schedules.pause_sync("by hand", reason="holidays", actor="ada")
    lines = {
        line.split("  ")[0].strip(): line for line in headway("schedule", "list").stdout.split("\n")
    }
    assert "0 8 * * *[Asia/Kathmandu]" in lines["morning"]
    assert '{"region":"us"}' in lines["morning"].replace(": ", ":")
    assert "08:00:00+0545" in lines["morning"]
    assert "overlap skip" in lines["morning"]
    assert "catch up all, jitter 300s, ends 2099-01-01 00:00+0000" in lines["report"]
    assert "by ada: holidays" in lines["by hand"]
    assert "not in code" in lines["by hand"]
    rows = {row["name"]: row for row in headway_json("schedule", "list")}
    assert rows["morning"]["next_at"].endswith("+05:45")
    assert rows["morning"]["input"] == {"region": "us"}
    assert (rows["by hand"]["paused"], rows["by hand"]["declared"]) == (True, False)


def test_text_that_would_steer_the_terminal_is_spelled_out(headway: Command, app: Headway) -> None:
    declare(app)
    app.schedules.put_sync("a", "report", "@daily", input={"region": "\x1b[31m"})
    app.schedules.pause_sync("a", reason="\x1b[31mred", actor="\x07")
    assert not {"\x1b", "\x07"} & set(headway("schedule", "list").stdout)


# -- next -----------------------------------------------------------------------------------------


def test_what_comes_is_shown_by_name(headway: Command, headway_json: Json, app: Headway) -> None:
    declare(app, Schedule("@every 1h", name="ticks"))
    expected = app.schedules.next_sync("ticks", 3)
    rows = headway_json("schedule", "next", "ticks", "-n", 3)
    assert [datetime.fromisoformat(row["at"]) for row in rows] == expected
    shown = headway("schedule", "next", "ticks").stdout
    assert f"{expected[0]:%a}" in shown
    assert expected[0].isoformat(" ") in shown
    assert len([line for line in shown.splitlines() if "+00:00" in line]) == 10


def test_the_name_of_a_second_schedule_is_a_name_though_a_spec_is_in_it(
    headway: Command, app: Headway
) -> None:
    declare(app, Schedule("@daily"), Schedule("0 8 * * *[Europe/Berlin]"))
    name = "report: 0 8 * * *[Europe/Berlin]"
    assert "08:00:00+0" in headway("schedule", "next", name, "-n", 1).stdout


def test_what_would_come_is_shown_by_spec_and_without_a_database(
    headway: Command, headway_json: Json
) -> None:
    nowhere = ("--dsn", "postgresql://127.0.0.1:1/nowhere")
    rows = headway_json("schedule", "next", "0 8 * * *[Europe/Berlin]", "-n", 400, *nowhere)
    assert len(rows) == 400
    first = datetime.fromisoformat(rows[0]["at"])
    assert timedelta(0) < first - datetime.now(UTC) < timedelta(days=1, hours=2)
    assert datetime.fromisoformat(rows[0]["utc"]) == first
    assert {row["at"][19:] for row in rows} == {"+01:00", "+02:00"}
    notes = [row["note"] for row in rows if row["note"]]
    assert set(notes) == {"clocks went forward by 1h", "clocks went back by 1h"}
    shown = headway("schedule", "next", "@daily[America/New_York]", *nowhere).stdout
    assert "America/New_York" in shown


def test_a_change_of_the_clocks_is_explained() -> None:
    def said(spec: str, after: datetime, count: int) -> list[tuple[str, str | None]]:
        found = noted(cron.parse(spec), preview(spec, after=after, count=count))
        return [(one.at.isoformat(" ")[5:], one.note) for one in found]

    assert said("30 2 * * *[Europe/Berlin]", datetime(2026, 3, 28, 12, tzinfo=UTC), 2) == [
        ("03-29 03:00:00+02:00", "replaces a time that does not exist on this day"),
        ("03-30 02:30:00+02:00", None),
    ]
    assert said("30 2 * * *[Europe/Berlin]", datetime(2026, 10, 24, 12, tzinfo=UTC), 2) == [
        ("10-25 02:30:00+02:00", "first of two 02:30"),
        ("10-26 02:30:00+01:00", "clocks went back by 1h"),
    ]
    assert said("30 */1 * * *[Europe/Berlin]", datetime(2026, 10, 25, 0, tzinfo=UTC), 2) == [
        ("10-25 02:30:00+02:00", "first of two 02:30"),
        ("10-25 02:30:00+01:00", "clocks went back by 1h; second of two 02:30"),
    ]


def test_what_never_comes_is_said_so(headway: Command, headway_json: Json) -> None:
    assert headway("schedule", "next", "1999-01-01T00:00").stdout == "no more runs\n"
    assert headway_json("schedule", "next", "1999-01-01T00:00") == []


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("@fortnightly", "the names are @hourly"),
        ("0 8 * * *[Europe/Berln]", "did you mean Europe/Berlin?"),
        ("@daily[]", "unknown time zone"),
    ],
)
def test_a_spec_that_cannot_be_read_is_a_usage_error(
    headway: Command, spec: str, problem: str
) -> None:
    nowhere = ("--dsn", "postgresql://127.0.0.1:1/nowhere")
    assert problem in headway("schedule", "next", spec, *nowhere, code=2).stderr


def test_what_is_neither_a_name_nor_a_spec_is_not_found(headway: Command) -> None:
    assert "no schedule 'nightly'" in headway("schedule", "next", "nightly", code=1).stderr
    headway("schedule", "next", "@daily", "-n", 0, code=2)


def test_what_looks_like_a_spec_and_is_no_name_is_judged_as_one(
    headway: Command, app: Headway
) -> None:
    for spec, problem in (
        ("99 8 * * *", "an invalid minute"),
        ("0 8 * * * * *", "the wrong number of fields"),
        ("0 8 * * * Europe/Berlin", "a zone without brackets"),
        ("tenant[5]", "unknown time zone '5'"),
    ):
        assert problem in headway("schedule", "next", spec, code=2).stderr
    declare(app)
    app.schedules.put_sync("tenant[5]", "report", "@daily")
    assert "00:00:00+00:00" in headway("schedule", "next", "tenant[5]", "-n", 1).stdout


def test_what_is_paused_does_not_happen_and_that_is_said(headway: Command, app: Headway) -> None:
    declare(app, Schedule("@daily", name="ticks"))
    assert headway("schedule", "next", "ticks").stderr == ""
    headway("schedule", "pause", "ticks", "--actor", "ada", "--reason", "holidays")
    said = headway("schedule", "next", "ticks", "-n", 1)
    assert "paused by ada: holidays" in said.stderr
    assert "00:00:00+00:00" in said.stdout


# -- put ------------------------------------------------------------------------------------------


def test_a_schedule_is_put_and_fires_without_the_app(
    headway: Command, headway_json: Json, app: Headway, db: psycopg.Connection[Any]
) -> None:
    ran: list[str] = []

    @app.task(queue="slow")
    async def report(region: str) -> None:
        ran.append(region)

    app.run_until_idle_sync()  # what is known of the task is what a worker declared
    words = ("schedule", "put", "nightly", "report", "@every 1h", '{"region": "us"}')
    headway(*words)
    answer = headway_json(
        *words, "--overlap", "queue", "--jitter", "5m", "--catch-up", "all", "--max-catch-up", 3
    )
    assert (answer["schedule"], answer["task"], answer["spec"]) == (
        "nightly",
        "report",
        "@every 1h",
    )
    assert datetime.fromisoformat(answer["next_at"]) > datetime.now(UTC)
    (found,) = app.schedules.list_sync()
    assert (found.overlap, found.jitter, found.catch_up, found.max_catch_up) == (
        "queue",
        300,
        "all",
        3,
    )
    assert (found.input, found.declared) == ({"region": "us"}, False)
    headway("schedule", "run", "nightly")
    (job,) = db.execute("select queue, keys from jobs").fetchall()
    assert (job[0], job[1]["concurrency"]) == ("slow", "schedule nightly")
    app.run_until_idle_sync()
    assert ran == ["us"]


def test_with_the_app_the_call_is_checked(headway: Command, app: Headway) -> None:
    with_app = ("--app", APP)
    words = ("schedule", "put", "sums", "add", "@daily")
    headway(*words, '{"a": 1, "b": 2}', *with_app)
    headway(*words, '{"a": 1}', *with_app, code=2)
    headway("schedule", "put", "x", "nothing", "@daily", *with_app, code=2)
    assert [one.name for one in app.schedules.list_sync()] == ["sums"]


@pytest.mark.parametrize("with_app", [(), ("--app", APP)])
def test_what_cannot_be_put_is_a_usage_error(
    headway: Command, app: Headway, with_app: tuple[str, ...]
) -> None:
    for words in (
        ("x", "add", "99 * * * *"),
        ("x", "add", "@daily[Europe/Berln]"),
        ("x", "add", "@daily", "[1]"),
        ("x", "add", "1999-01-01T00:00", '{"a": 1, "b": 2}'),
        ("", "add", "@daily"),
        ("x" * 151, "add", "@daily"),
        ("x", "add", "@daily", "{}", "--max-catch-up", "10001"),
        ("x", "add", "@daily", "{}", "--ends-at", "2099-01-01"),
    ):
        headway("schedule", "put", *words, *with_app, code=2)
    assert app.schedules.list_sync() == []


# -- pause, resume, run, remove -------------------------------------------------------------------


def test_a_pause_shows_its_actor_and_reason_and_is_lifted(
    headway: Command, headway_json: Json, app: Headway
) -> None:
    declare(app, Schedule("@daily"))
    answer = headway_json("schedule", "pause", "report", "--reason", "holidays")
    (found,) = app.schedules.list_sync()
    assert (found.paused_by, found.pause_reason) == (answer["actor"], "holidays")
    assert "@" in answer["actor"]
    headway("schedule", "resume", "report")
    answer = headway_json("schedule", "resume", "report", code=1)
    assert answer == {"schedule": "report", "paused": False, "resumed": False}


def test_a_schedule_is_run_now(headway: Command, headway_json: Json, app: Headway) -> None:
    declare(app, Schedule("@daily", overlap="skip"))
    job_id = headway("schedule", "run", "report").stdout.strip()
    again = headway("schedule", "run", "report")
    assert again.stdout.strip() == job_id
    assert job_id in again.stderr
    answer = headway_json("schedule", "run", "report")
    assert answer == {"schedule": "report", "id": job_id, "created": False}
    app.run_until_idle_sync()
    assert app.job(job_id).result_sync(timeout="60s") == "eu"


def test_a_schedule_is_removed(headway: Command, headway_json: Json, app: Headway) -> None:
    declare(app)
    for name in ("a", "b"):
        app.schedules.put_sync(name, "report", "@daily")
    headway("schedule", "remove", "a")
    assert headway_json("schedule", "remove", "b") == {"schedule": "b", "removed": True}
    assert headway_json("schedule", "remove", "a", code=1)["removed"] is False


@pytest.mark.parametrize("command", ["pause", "resume", "run"])
def test_what_is_not_there_is_not_found(headway: Command, command: str) -> None:
    headway("schedule", command, "nightly", code=1)
