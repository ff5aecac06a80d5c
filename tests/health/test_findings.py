"""The findings that follow from what a worker knows about itself. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headway.core.finding import Finding
from headway.core.info import Control, ControlKind, QueueMetrics
from headway.engine.health import metrics, probe
from headway.engine.health.probe import DatabaseStatus
from headway.engine.health.state import Vitals, alive, is_well, ready
from headway.engine.service_status import ServiceStatus
from tests.health.ask import Reply, one_of

WELL = Vitals(
    version="1.2.3",
    schema="headway",
    worker_id=7,
    trusted=True,
    draining=False,
    listening=True,
    leads=True,
    lease=30.0,
    slots=100,
    dedicated={"reports": (2, 1)},
    running=3,
    unsettled=1,
    settled={"succeed": 5, "retry": 2},
    lost=0,
    round_trips=12,
    round_trip_seconds=0.25,
    loop_age=0.5,
    turn_age=9.0,
    heartbeat_age=9.5,
    services=[ServiceStatus("job_loop"), ServiceStatus("sweeper", failed_in_all=4)],
    blocks=1,
    blocked_seconds=2.5,
)
SEEN = DatabaseStatus(at=0.0, reached=True, connected_in=0.004, answered_in=0.0012, skew=-0.5)


def _queue(name: str, **fields: Any) -> QueueMetrics:
    states = "ready scheduled blocked running waiting succeeded failed cancelled expired"
    counts = dict.fromkeys(states.split(), 0)
    given: dict[str, Any] = {"oldest_ready_age": None, "newest_ready_age": None} | counts | fields
    return QueueMetrics(name, estimated=False, as_of=datetime(2040, 1, 1, tzinfo=UTC), **given)


def _control(kind: ControlKind, name: str, **fields: Any) -> Control:
    unsaid = dict.fromkeys(Control.__dataclass_fields__) | {"paused": False}
    return Control(**{**unsaid, **fields, "kind": kind, "name": name})


def test_a_worker_that_turns_and_beats_is_alive_and_ready() -> None:
    assert is_well(alive(WELL))
    assert is_well(ready(WELL))


def test_a_loop_that_is_stuck_beyond_the_lease_is_not_alive() -> None:
    assert is_well(alive(replace(WELL, loop_age=30.0)))
    stuck = alive(replace(WELL, loop_age=30.1))
    assert one_of(stuck, "event loop").status == "wrong"
    assert one_of(stuck, "heartbeat").status == "ok"


def test_a_heartbeat_that_no_longer_tries_is_not_alive() -> None:
    stuck = alive(replace(WELL, turn_age=61.0))
    assert one_of(stuck, "heartbeat").status == "wrong"
    assert one_of(stuck, "event loop").status == "ok"


def test_a_heartbeat_that_fails_is_a_reason_to_wait_and_none_to_die() -> None:
    away = replace(WELL, trusted=False, heartbeat_age=4_000.0)
    assert is_well(alive(away))
    assert one_of(ready(away), "lease").status == "wrong"


@pytest.mark.parametrize(
    ("change", "about"),
    [
        ({"trusted": False}, "lease"),
        ({"trusted": False, "heartbeat_age": None, "worker_id": 0}, "lease"),
        ({"heartbeat_age": 30.5}, "lease"),
        ({"draining": True}, "worker"),
        ({"loop_age": 99.0}, "event loop"),
    ],
)
def test_what_keeps_a_worker_from_claiming_makes_it_unready(
    change: dict[str, Any], about: str
) -> None:
    found = ready(replace(WELL, **change))
    assert [finding.about for finding in found if finding.status == "wrong"] == [about]


def test_g7_a_service_that_fails_is_a_note_and_after_a_lease_wrong() -> None:
    assert one_of(ready(WELL), "services").status == "ok"
    fails = ServiceStatus("sweeper", 29.0, 0.0, 3, 3, "DatabaseError 42P01", "relation secret")
    found = ready(replace(WELL, services=[ServiceStatus("job_loop"), fails]))
    assert is_well(found)
    assert one_of(found, "service sweeper").status == "note"
    found = ready(
        replace(WELL, services=[ServiceStatus("job_loop"), replace(fails, failing_for=30.0)])
    )
    assert one_of(found, "service sweeper") == Finding(
        "service sweeper",
        "wrong",
        "sweeper has failed for 30s, 3 times in a row: DatabaseError 42P01",
    )
    assert is_well(alive(replace(WELL, services=[replace(fails, failing_for=4000.0)])))


def test_g7_a_turn_without_an_answer_for_a_lease_is_wrong() -> None:
    waits = replace(WELL, services=[ServiceStatus("job_loop", busy_for=29.0)])
    assert one_of(ready(waits), "services").status == "ok"
    waits = replace(WELL, services=[ServiceStatus("job_loop", busy_for=30.0)])
    assert one_of(ready(waits), "service job_loop").status == "wrong"


def test_b7_a_loop_that_is_blocked_is_a_note_and_after_a_lease_wrong() -> None:
    blocked = replace(WELL, loop_age=2.0, blocked="by task hog, job 7, at jobs.py:133")
    assert one_of(alive(blocked), "event loop").status == "note"
    stuck = one_of(alive(replace(blocked, loop_age=31.0)), "event loop")
    assert stuck.status == "wrong"
    assert stuck.words.endswith("it is blocked by task hog, job 7, at jobs.py:133")


def test_a_lease_that_is_over_is_said_to_be_also_by_a_worker_that_has_not_noticed() -> None:
    """Its loop is stuck: it cannot have given the lease up, and others have its jobs by now."""
    over = one_of(ready(replace(WELL, heartbeat_age=45.0)), "lease")
    assert over.words.startswith("the last heartbeat was 45s ago, longer than the lease of 30s")


def test_slots_of_a_queue_s_own_are_named() -> None:
    assert one_of(ready(WELL), "worker").words == "3 of 100 slots taken (reports: 1 of its 2)"
    assert one_of(ready(replace(WELL, dedicated={})), "worker").words == "3 of 100 slots taken"


@pytest.mark.parametrize("listening", [False, None])
def test_a_worker_that_polls_is_ready_all_the_same(listening: bool | None) -> None:
    found = ready(replace(WELL, listening=listening))
    assert is_well(found)
    assert one_of(found, "listener").status == "note"


def test_a_database_that_is_away_or_does_not_fit_is_wrong() -> None:
    assert is_well(probe.findings(SEEN, "headway"))
    assert one_of(probe.findings(SEEN, "headway"), "database").words == (
        "connected in 4.0 ms, answers in 1.2 ms"
    )
    away = probe.findings(DatabaseStatus(at=0.0, reached=False), "headway")
    assert [(f.about, f.status) for f in away] == [("database", "wrong")]
    other = DatabaseStatus(at=0.0, reached=True, schema_error="run `headway migrate`")
    found = probe.findings(other, "headway")
    assert [(f.about, f.status) for f in found] == [("database", "ok"), ("schema", "wrong")]


def test_a_clock_that_is_off_is_a_note() -> None:
    off = probe.findings(replace(SEEN, skew=7_200.0), "headway")
    assert one_of(off, "clock").status == "note"
    assert one_of(off, "clock").words.startswith("2h ahead of")


def test_a_queue_that_waits_too_long_is_a_note_unless_it_is_paused() -> None:
    queues = [
        _queue("late", ready=1, oldest_ready_age=301.0),
        _queue("paused", ready=1, oldest_ready_age=301.0),
        _queue("quick", ready=1, oldest_ready_age=1.0),
        _queue("empty"),
    ]
    controls = [_control("queue", "paused", paused=True), _control("task", "late", paused=True)]
    found = probe.late_queues(replace(SEEN, queues=queues, controls=controls), 300.0)
    assert [(f.about, f.status) for f in found] == [("queue late", "note")]
    assert found[0].words == "its oldest ready job has waited 5m 1s, longer than 5m"


def _figures(vitals: Vitals, seen: DatabaseStatus) -> dict[str, float]:
    return Reply(200, {}, metrics.exposition(vitals, seen)).figures()


def test_figures_say_what_the_worker_and_the_database_say() -> None:
    queues = [_queue('a "b"\\', ready=4, oldest_ready_age=1.5, failed=9)]
    controls = [
        _control("queue", "p", paused=True),
        _control("queue", "l", concurrency=3, rate=0.5),
        _control("task", "t", concurrency=0, paused=True),
        _control("task", "r", rate=2.0),
        _control("keys", "t", concurrency=9),
        _control("key", "t:1", paused=True),
    ]
    figures = _figures(WELL, replace(SEEN, queues=queues, controls=controls))
    assert figures == {
        'headway_worker_info{version="1.2.3",schema="headway",worker="7"}': 1,
        'headway_jobs_settled_total{verdict="retry"}': 2,
        'headway_jobs_settled_total{verdict="succeed"}': 5,
        "headway_claims_lost_total": 0,
        "headway_jobs_running": 3,
        "headway_slots": 100,
        'headway_dedicated_slots{queue="reports"}': 2,
        'headway_dedicated_slots_taken{queue="reports"}': 1,
        "headway_verdicts_unsettled": 1,
        "headway_job_loop_round_trips_total": 12,
        "headway_job_loop_seconds_total": 0.25,
        "headway_heartbeat_age_seconds": 9.5,
        "headway_lease_seconds": 30,
        "headway_lease_trusted": 1,
        "headway_loop_age_seconds": 0.5,
        "headway_loop_blocks_total": 1,
        "headway_loop_blocked_seconds_total": 2.5,
        'headway_service_failures_total{service="job_loop"}': 0,
        'headway_service_failures_total{service="sweeper"}': 4,
        'headway_service_failing_seconds{service="job_loop"}': 0,
        'headway_service_failing_seconds{service="sweeper"}': 0,
        "headway_alive": 1,
        "headway_listening": 1,
        "headway_leader": 1,
        "headway_draining": 0,
        "headway_database_up": 1,
        "headway_schema_fits": 1,
        "headway_database_connect_seconds": 0.004,
        "headway_database_ping_seconds": 0.0012,
        "headway_clock_skew_seconds": -0.5,
        r'headway_queue_jobs{queue="a \"b\"\\",state="blocked"}': 0,
        r'headway_queue_jobs{queue="a \"b\"\\",state="ready"}': 4,
        r'headway_queue_jobs{queue="a \"b\"\\",state="running"}': 0,
        r'headway_queue_jobs{queue="a \"b\"\\",state="scheduled"}': 0,
        r'headway_queue_jobs{queue="a \"b\"\\",state="waiting"}': 0,
        r'headway_queue_jobs_ended_total{queue="a \"b\"\\",state="cancelled"}': 0,
        r'headway_queue_jobs_ended_total{queue="a \"b\"\\",state="expired"}': 0,
        r'headway_queue_jobs_ended_total{queue="a \"b\"\\",state="failed"}': 9,
        r'headway_queue_jobs_ended_total{queue="a \"b\"\\",state="succeeded"}': 0,
        r'headway_queue_oldest_ready_seconds{queue="a \"b\"\\"}': 1.5,
        r'headway_queue_paused{queue="a \"b\"\\"}': 0,
        'headway_queue_paused{queue="l"}': 0,
        'headway_queue_paused{queue="p"}': 1,
        'headway_queue_limit{queue="l"}': 3,
        'headway_queue_rate_limit{queue="l"}': 0.5,
        'headway_task_paused{task="r"}': 0,
        'headway_task_paused{task="t"}': 1,
        'headway_task_limit{task="t"}': 0,
        'headway_task_rate_limit{task="r"}': 2,
    }


def test_every_figure_is_described_once_and_before_it_comes() -> None:
    controls = [_control("task", "t", concurrency=1), _control("queue", "q", rate=1.0)]
    text = metrics.exposition(WELL, replace(SEEN, queues=[_queue("q")], controls=controls))
    described: list[str] = []
    for line in text.splitlines():
        if line.startswith("# HELP "):
            described.append(line.split()[2])
        elif line.startswith("# TYPE "):
            assert line.split()[2] == described[-1]
        else:
            assert line.split("{")[0].split()[0] == described[-1]
    assert len(described) == len(set(described))
    assert text.endswith("\n")


def test_the_guide_names_every_figure_and_no_other() -> None:
    controls = [
        _control(kind, "x", concurrency=1, rate=1.0)
        for kind in ("queue", "task")  # type: ignore[arg-type]
    ]
    seen = replace(SEEN, queues=[_queue("x")], controls=controls)
    known = {name.partition("{")[0] for name in _figures(WELL, seen)}
    guide = Path(__file__).parents[2] / "docs" / "operations.md"
    rows = [
        line for line in guide.read_text("utf-8").splitlines() if line.startswith("| `headway_")
    ]
    named = [name for row in rows for name in re.findall(r"`(headway_\w+)", row.split(" | ")[0])]
    assert sorted(named) == sorted(known)


def test_without_a_database_there_are_still_the_worker_s_own_figures() -> None:
    figures = _figures(replace(WELL, heartbeat_age=None), DatabaseStatus(at=0.0, reached=False))
    assert figures["headway_database_up"] == 0
    assert figures["headway_schema_fits"] == 0
    assert figures["headway_jobs_running"] == 3
    assert not [
        name for name in figures if "headway_queue" in name or "ping" in name or "beat" in name
    ]
