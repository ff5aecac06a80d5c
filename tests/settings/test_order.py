"""Which layer wins: field by field, and nothing is kept from one app for the next."""

from __future__ import annotations

import pytest

from headway import Headway
from headway.core.config import WorkerOptions
from headway.settings.layers import load
from tests.settings.conftest import Project


def test_each_layer_goes_before_the_one_below_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the bottom up: each layer that is added wins, and says that it was it."""
    seen: list[tuple[str, str]] = []

    def look(hw: Headway) -> None:
        setting = hw.settings["schema"]
        seen.append((setting.value, str(setting.origin)))

    look(Headway())
    file = project.write(
        "headway.toml", 'schema = "file"\n[profiles.production]\nschema = "prod"\n'
    )
    look(Headway())
    dotenv = project.write(".env", "HEADWAY_ENV=production\n")
    look(Headway())
    project.write(".env", "HEADWAY_ENV=production\nHEADWAY_SCHEMA=dotenv\n")
    look(Headway())
    monkeypatch.setenv("HEADWAY_SCHEMA", "variable")
    look(Headway())
    hw = Headway(schema="code")
    look(hw)
    hw._session.redirect(schema="option")
    look(hw)
    assert seen == [
        ("headway", "default"),
        ("file", f"{file}: schema"),
        ("prod", f"{file}: profiles.production.schema"),
        ("dotenv", f"{dotenv}, line 2: HEADWAY_SCHEMA"),
        ("variable", "environment: HEADWAY_SCHEMA"),
        ("code", "code: schema"),
        ("option", "command line: --schema"),
    ]


def test_a_layer_says_something_of_the_fields_that_it_names_and_of_no_other(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(
        "headway.toml",
        '[worker]\nconcurrency = 1\nlease = "1m"\ngrace = "1m"\nbatch = 1\n[retention]\nfailed = "1d"\n'
        '[profiles.p]\nworker = {concurrency = 2, lease = "2m", grace = "2m"}\n',
    )
    monkeypatch.setenv("HEADWAY_ENV", "p")
    monkeypatch.setenv("HEADWAY_WORKER__CONCURRENCY", "3")
    monkeypatch.setenv("HEADWAY_WORKER__LEASE", "3m")
    hw = Headway(worker={"concurrency": 4, "poll": "4s"})
    expected = WorkerOptions(
        concurrency=5, lease="3m", grace="2m", batch=1, poll="4s", poll_alone="250ms"
    )
    assert hw.settings.worker({"concurrency": 5}) == expected
    assert (hw.retention.succeeded, hw.retention.failed) == ("7d", "1d")


def test_what_is_wrong_in_a_call_is_no_fault_of_the_layers_below(project: Project) -> None:
    project.write("headway.toml", "[worker]\nconcurrency = 3")
    settings = Headway(worker={"batch": 4}).settings
    said = project.refusal(lambda: settings.worker({"lease": 0.001}))
    assert said == "lease 0.001 must be at least a second"
    said = project.refusal(lambda: settings.worker({"health": "x:y"}))
    assert said.startswith("health 'x:y' is not an address")
    assert "headway.toml" not in said


def test_what_only_two_layers_together_make_wrong_names_both(project: Project) -> None:
    file = project.write("headway.toml", "[worker.queues]\nmail = 3")
    said = project.refusal(lambda: Headway(worker={"dedicated": {"mail": 2}}).settings)
    assert said.startswith(
        "queue 'mail' has a weight and slots of its own; give one of them (set by"
    )
    assert f"{file}: worker.queues" in said
    assert "code: worker.dedicated" in said


def test_an_app_reads_anew_and_keeps_what_it_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Headway()
    monkeypatch.setenv("HEADWAY_POOL_SIZE", "3")
    assert first.settings["pool_size"].value == 3, "made before, used after"
    monkeypatch.setenv("HEADWAY_POOL_SIZE", "4")
    assert (first.settings["pool_size"].value, Headway().settings["pool_size"].value) == (3, 4)


def test_a_configuration_that_could_not_be_is_read_again_once_it_is_right(project: Project) -> None:
    project.write("headway.toml", "pool_size = 0")
    hw = Headway()
    assert "pool_size = 0" in project.refusal(lambda: hw.settings)
    project.write("headway.toml", "pool_size = 2")
    assert hw.settings["pool_size"].value == 2


def test_every_value_is_that_of_the_defaults_where_nobody_says_anything(project: Project) -> None:
    settings = load()
    assert settings.worker() == WorkerOptions()
    assert {setting.origin.layer for setting in settings.values.values()} == {"default"}
    assert (settings.file, settings.env_file, settings.profile, settings.notes) == (
        None,
        None,
        None,
        (),
    )
