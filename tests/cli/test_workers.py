from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway import Headway
from headway.store.statements import fleet
from tests.cli.conftest import Command


def test_workers_are_listed_alive_and_gone(
    headway: Command, headway_json: Callable[..., Any], app: Headway
) -> None:
    run = app._session.client.run_sync
    alive = run(fleet.register("here:1", "1.2.3", 7, ["mail", "default"], ["send"], 60, None))
    gone = run(fleet.register("there:2", "1.2.3", 7, ["mail"], ["send"], 60, None))
    run(fleet.retire(gone, None))
    rows = headway_json("worker-list")
    assert [(row["id"], row["alive"]) for row in rows] == [(alive, True), (gone, False)]
    lines = headway("worker-list").stdout.splitlines()
    (line,) = [line for line in lines if "here:1" in line]
    assert line.split()[:3] == [str(alive), "here:1", "alive"]
    assert "mail, default" in line
    (line,) = [line for line in lines if "there:2" in line]
    assert line.split()[:3] == [str(gone), "there:2", "gone"]


def test_no_workers_is_no_error(headway_json: Callable[..., Any]) -> None:
    assert headway_json("worker-list") == []
