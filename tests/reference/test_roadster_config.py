"""Configuration of workers, checks of health, and what is logged of a batch."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import click.testing
import pytest

from headway import Headway
from headway.cli.root import root
from headway.core.clock import wall
from headway.core.config import WorkerOptions
from headway.engine.health.state import alive
from headway.errors import ConfigError
from headway.settings.layers import Settings, load
from headway.settings.notation import read_queues
from tests.reference.scenes import work_of
from tests.support import Running, eventually

Configured = Callable[[str], Settings]


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configured:
    """What holds where a headway.toml says this and nobody says anything else."""
    for name in [*os.environ, "DATABASE_URL"]:
        if name.startswith("HEADWAY_") or name == "DATABASE_URL":
            monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def configured(toml: str) -> Settings:
        (tmp_path / "headway.toml").write_text(toml)
        return load()

    return configured


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("", {"worker.concurrency": 100, "retention.failed": "30d", "schedules": "stale"}),
        ("[worker]\nqueues = ['mail']", {"worker.queues": {"mail": 1}, "worker.dedicated": {}}),
        (
            "[worker]\nlease = '1m'\ngrace = 5",
            {"worker.lease": "1m", "worker.grace": 5, "worker.poll": "5s"},
        ),
        (
            "[retention]\nsucceeded = 'none'\nfailed = '90d'",
            {"retention.succeeded": None, "retention.failed": "90d"},
        ),
        ("pool_size = 3\nschedules = 'manual'", {"pool_size": 3, "schedules": "manual"}),
        (
            "database_url = 'postgresql://db/jobs'\nschema = 'jobs'",
            {"database_url": "postgresql://db/jobs", "schema": "jobs"},
        ),
        (
            "[worker]\npoll = '10s'\npoll_alone = '1s'\nlisten = false",
            {"worker.poll": "10s", "worker.poll_alone": "1s", "worker.listen": False},
        ),
    ],
    ids=["minimal", "queue", "times", "actions", "pool", "database", "fetching"],
)
def test_r19_a_file_says_what_it_names_and_the_rest_is_as_it_was(
    configured: Configured, toml: str, expected: dict[str, Any]
) -> None:
    """Roadster: nine cases of TOML. Headway: those that have a counterpart; retries and timeouts are the
    task's, in code; there is no other backend and nothing to install."""
    settings = configured(toml)
    assert {key: settings[key].value for key in expected} == expected
    named = {key for key in settings.values if settings[key].origin.layer == "file"}
    assert len(named) <= len(expected)
    for key in set(settings.values) - set(expected):
        assert settings[key].origin.layer == "default", key


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("", WorkerOptions()),
        ("concurrency = 7", WorkerOptions(concurrency=7)),
        ("queues = {a = 1, b = 1}", WorkerOptions(queues={"a": 1, "b": 1})),
        (
            "queues = {a = 3}\ndedicated = {b = 2}",
            WorkerOptions(queues={"a": 3}, dedicated={"b": 2}),
        ),
        (
            "queues = ['a', 'b']\norder = 'strict'",
            WorkerOptions(queues={"a": 1, "b": 1}, order="strict"),
        ),
    ],
    ids=["minimal", "workers", "queues", "dedicated", "balance"],
)
def test_r20_the_section_of_workers_is_read_field_by_field(
    configured: Configured, toml: str, expected: WorkerOptions
) -> None:
    """Roadster: five cases of its pg section. Headway: the same things of [worker]; that a strict order
    may starve a queue is for who asks for it to know."""
    assert configured(f"[worker]\n{toml}").worker() == expected


@pytest.mark.parametrize(
    ("toml", "complaint"),
    [
        ("[worker]\norder = 'none'", "worker.order = 'none'"),
        ("[worker]\nconcurrencey = 3", "did you mean worker.concurrency?"),
        ("[worker]\nqueues = {a = 0}", "weight 0"),
        ("[sidekiq]\nenable = true", "no setting sidekiq"),
    ],
)
def test_r21_turns_and_queues_are_read_and_what_is_not_known_is_refused(
    configured: Configured, toml: str, complaint: str
) -> None:
    """Roadster: cases of its Redis backend, and unknown keys are kept for the app. Headway: PostgreSQL
    alone (decision 1); a key that nobody reads is an error."""
    assert configured("[worker]\norder = 'fair'").worker().order == "fair"
    assert read_queues(["mail:3", "reports=2"]) == read_queues(["reports=2", "mail:3"])
    with pytest.raises(ConfigError) as refused:
        configured(toml)
    assert complaint in str(refused.value)


async def test_r22_nobody_answers_about_health_unless_asked_to(
    hw: Headway, start: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Roadster: a flag for each check. Headway: the endpoint is there or not; no check can be left out,
    and none of them costs anything before someone asks."""
    caplog.set_level(logging.INFO, "headway.worker")
    work_of(hw)
    silent: Running = start()
    asked: Running = start(health="127.0.0.1:0")
    for running in (silent, asked):
        await eventually(lambda running=running: running.worker.id)
        assert {found.status for found in alive(running.worker._health.vitals())} == {"ok"}
    assert caplog.text.count("answering") == 1


@pytest.mark.parametrize(("limit", "status"), [("", "ok"), ("[health]\nmax_wait = '1m'", "wrong")])
def test_r22_how_long_a_job_may_wait_is_checked_where_a_limit_is_set(
    configured: Configured, dsn: str, schema: str, limit: str, status: str
) -> None:
    """Roadster: its checks know nothing of queues. Headway: the one that needs a number is off until it
    has one: `health.max_wait`."""
    configured(limit)
    with Headway(dsn, schema=schema) as app:
        work_of(app).using(queue="mail", at=wall() - timedelta(hours=1)).enqueue_sync()
    words = ["health", "--json", "--dsn", dsn, "--schema", schema]
    found = json.loads(click.testing.CliRunner().invoke(root, words).stdout)["findings"]
    assert [each["status"] for each in found if each["about"] == "queue mail"] == [status]


async def test_r23_a_batch_says_nothing_of_its_ids(
    hw: Headway, caplog: pytest.LogCaptureFixture
) -> None:
    """Roadster: ids of a batch are logged at debug and below. Headway: never; they are returned."""
    caplog.set_level(logging.DEBUG, "headway")
    made = await work_of(hw).enqueue_many([{"number": n} for n in range(3)])
    assert len({job.id for job in made}) == 3
    assert not [job for job in made if str(job.id) in caplog.text]
