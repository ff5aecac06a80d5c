"""Queues in files and variables: a table, or the command line's notation."""

from __future__ import annotations

import pytest

from headway import Headway
from headway.errors import ConfigError
from headway.settings.layers import load
from headway.settings.notation import QueueNotation, read_queues
from tests.settings.conftest import Project


@pytest.mark.parametrize(
    "queues",
    ["['mail:3', 'reports=2', '*']", "'mail:3, reports=2,*'", "' mail:3 ,*, reports=2, '"],
)
def test_a_list_or_a_text_is_read_like_the_command_line(project: Project, queues: str) -> None:
    project.write("headway.toml", f"[worker]\nqueues = {queues}")
    worker = load().worker()
    assert (worker.queues, worker.dedicated) == ({"mail": 3, "*": 1}, {"reports": 2})


def test_a_list_is_read_like_that_in_code_as_well(project: Project) -> None:
    hw = Headway(worker={"queues": ["mail:3", "reports=2", "*"]})
    worker = hw.settings.worker()
    assert (worker.queues, worker.dedicated) == ({"mail": 3, "*": 1}, {"reports": 2})


def test_a_table_has_weights_and_says_nothing_of_slots(project: Project) -> None:
    project.write("headway.toml", "[worker]\nqueues = {mail = 3}\ndedicated = {reports = 2}")
    worker = load().worker()
    assert (worker.queues, worker.dedicated) == ({"mail": 3}, {"reports": 2})


def test_the_notation_says_of_every_queue_whether_it_has_slots_of_its_own(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that asks for mail alone does not get the file's reports as well."""
    project.write("headway.toml", "[worker]\nqueues = ['a', 'reports=2']")
    monkeypatch.setenv("HEADWAY_WORKER__QUEUES", "mail")
    worker = load().worker()
    assert (worker.queues, worker.dedicated) == ({"mail": 1}, {})
    monkeypatch.setenv("HEADWAY_WORKER__DEDICATED", "slow=1")
    worker = load().worker()
    assert (worker.queues, worker.dedicated) == ({"mail": 1}, {"slow": 1})


def test_slots_set_in_the_notation_and_apart_from_it_are_refused(project: Project) -> None:
    project.write("headway.toml", "[worker]\nqueues = ['a', 'b=2']\ndedicated = {c = 1}")
    assert "both set worker.dedicated; keep only one" in project.refusal()


def test_fields_that_do_not_go_together_are_named_with_where_each_came_from(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project.write("headway.toml", "[worker]\ndedicated = {mail = 2}\nqueues = {a = 1}")
    monkeypatch.setenv("HEADWAY_WORKER__QUEUES", "mail:3")
    monkeypatch.setenv("HEADWAY_WORKER__DEDICATED", "mail=2")
    said = project.refusal()
    assert "queue 'mail' has a weight and slots of its own" in said
    assert "(set by environment: HEADWAY_WORKER__DEDICATED, environment: HEADWAY_WORKER__Q" in said
    assert str(file) not in said


@pytest.mark.parametrize(
    ("queues", "complaint"),
    [
        ("'mail:many'", "'mail:many': a queue's weight must be a whole number, 1 or more"),
        ("'mail=0'", "'mail=0': a queue's number of slots must be a whole number, 1 or more"),
        ("[3]", "each entry must be text, like 'mail:3'"),
        ("['mail', 'mail:2']", "queue 'mail' is named twice; name it once"),
        ("[':2']", "':2' names no queue"),
        ("['']", "'' names no queue"),
    ],
)
def test_a_notation_that_cannot_be_read_is_refused(
    project: Project, queues: str, complaint: str
) -> None:
    file = project.write("headway.toml", f"[worker]\nqueues = {queues}")
    said = project.refusal()
    assert said.startswith(f"{file}: worker.queues = ")
    assert f"is invalid: {complaint}" in said


def test_dedicated_queues_have_slots_and_no_weight(project: Project) -> None:
    project.write("headway.toml", "[worker]\ndedicated = 'reports:2'")
    assert "must set the slots of each queue; write it like 'reports=2'" in project.refusal()


def test_names_may_have_the_signs_in_them() -> None:
    assert read_queues(["a:b:2", "a=b=3"]) == QueueNotation({"a:b": 2}, {"a=b": 3})
    with pytest.raises(ConfigError, match="weight must be a whole number"):
        read_queues(["a:b"])
