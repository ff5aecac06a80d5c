"""Schedules that left the code: the rule of their app decides, and never that of another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import psycopg
import pytest

from headway import Headway, Schedule
from headway.engine.maintenance.declarations import Declarations
from headway.errors import ConfigError
from headway.store.statements import schedules
from tests.schedules.travel import Travel
from tests.support import Running, eventually

Another = Callable[..., Headway]
Deploy = Callable[..., Awaitable[None]]
Serve = Callable[..., Awaitable[Running]]


def declare(app: Headway, *names: str, task: str = "report") -> Headway:
    """An app whose code declares schedules of these names."""
    schedule = [Schedule("@hourly", name=name, input={"name": name}) for name in names]

    @app.task(name=task, schedule=schedule)
    async def report(name: str) -> None: ...

    return app


@pytest.fixture
async def serve(travel: Travel, db: psycopg.Connection[Any]) -> AsyncIterator[Serve]:
    """Starts a worker of an app that declares schedules; returns when it has cleaned up."""

    started: list[Running] = []

    async def serve(
        app: Headway, *names: str, task: str = "report", lease: str = "1000d"
    ) -> Running:
        declare(app, *names, task=task)
        # One statement removes all of them: when this one is gone, so are the others.
        db.execute(
            """insert into schedule (name, owner, declared, task, spec, job, catch_up, most, overlap,
                                     since, done_until, created_at, changed_at)
               select 'left behind', %s, true, %s, '@daily', '{}', 'one', 1, 'allow', t, t, t, t
               from (select now()) n(t)""",
            (app.settings.app.name or "", task),
        )
        started.append(Running(app.worker(grace="1s", lease=lease)))
        await eventually(lambda: "left behind" not in travel.names())
        return started[-1]

    yield serve
    for running in started:
        await running.stop()


@pytest.fixture
def deploy(serve: Serve) -> Deploy:
    """As `serve`, and stops the worker."""

    async def deploy(app: Headway, *names: str, task: str = "report") -> None:
        await (await serve(app, *names, task=task)).stop()

    return deploy


async def test_what_left_the_code_is_removed_when_no_worker_declares_it(
    hw: Headway, travel: Travel, another: Another, deploy: Deploy
) -> None:
    await deploy(hw, "a", "b")
    await deploy(another(), "b", "c")
    assert travel.names() == ["b", "c"]


async def test_what_a_worker_that_lives_declares_is_kept(
    hw: Headway, travel: Travel, another: Another, serve: Serve
) -> None:
    """A rolling deploy: the old code goes on until the last of its workers has stopped."""
    old = await serve(hw, "a")
    new = await serve(another(), "b")
    assert travel.names() == ["a", "b"]
    await old.stop()
    await new.stop()
    await serve(another(), "b")
    assert travel.names() == ["b"]


async def test_manual_removes_nothing(hw: Headway, travel: Travel, another: Another) -> None:
    await travel.run(hw=declare(hw, "a", "b"))
    newer = declare(another(schedules="manual"), "b")
    for moment in ("12:00", "13:00", "14:00"):
        await travel.run(moment, hw=newer)
    assert travel.names() == ["a", "b"]
    assert travel.made("a") == ["13:00", "14:00"], "and it goes on"


async def test_all_removes_at_once_what_the_code_of_this_app_does_not_declare(
    hw: Headway, travel: Travel, another: Another, serve: Serve
) -> None:
    await serve(hw, "a", "b")
    await serve(another(schedules="all"), "b")
    assert travel.names() == ["b"], "also while an old worker lives"


@pytest.mark.parametrize("rule", ["stale", "all"])
async def test_what_another_app_declared_is_never_touched(
    hw: Headway, travel: Travel, another: Another, deploy: Deploy, rule: str
) -> None:
    await deploy(another(name="billing"), "invoices")
    await deploy(another(name="mail", schedules=rule), "letters")
    await deploy(another(schedules=rule), "mine", task="mine")
    assert travel.names() == ["invoices", "letters", "mine"]
    owners = {one.name: one.owner for one in await hw.schedules.list()}
    assert owners == {"invoices": "billing", "letters": "mail", "mine": ""}
    await deploy(another(name="billing", schedules=rule), "bills")
    assert travel.names() == ["bills", "letters", "mine"], "its own are"


@pytest.mark.parametrize("rule", ["stale", "all"])
async def test_what_a_person_put_is_never_touched(
    hw: Headway, travel: Travel, another: Another, deploy: Deploy, rule: str
) -> None:
    declare(hw)
    await hw.schedules.put("by hand", "report", "@daily", input={"name": "x"})
    named = declare(another(name="billing"))
    await named.schedules.put("for billing", "report", "@daily", input={"name": "x"})
    for app in (another(schedules=rule), another(name="billing", schedules=rule)):
        await deploy(app, "a")
    assert travel.names() == ["a", "by hand", "for billing"]


async def test_apps_without_a_name_leave_each_others_tasks_alone(
    hw: Headway, travel: Travel, another: Another, deploy: Deploy
) -> None:
    await deploy(hw, "a", task="theirs")
    await deploy(another(schedules="all"), "b", task="ours")
    assert travel.names() == ["a", "b"]


@pytest.mark.parametrize("clean_up", ["stale", "all"])
async def test_an_app_with_a_name_leaves_those_of_apps_without_alone(
    hw: Headway,
    travel: Travel,
    another: Another,
    deploy: Deploy,
    clean_up: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Though it knows a task of the same name."""
    await deploy(hw, "a", "b")
    await deploy(another(name="billing", schedules=clean_up), "a")
    assert {one.name: one.owner for one in await hw.schedules.list()} == {"a": "", "b": ""}
    assert "schedule a of the code is ignored" in caplog.text


async def test_a_name_that_another_app_has_is_not_taken_over(
    hw: Headway, travel: Travel, another: Another, caplog: pytest.LogCaptureFixture
) -> None:
    await travel.run(hw=declare(another(name="billing"), "a"))
    for owner in ("mail", None):
        caplog.clear()
        await travel.run(hw=declare(another(name=owner), "a", task="other"))
        assert "schedule a of the code is ignored" in caplog.text
    (found,) = await hw.schedules.list()
    assert (found.owner, found.task) == ("billing", "report")


async def test_a_worker_that_was_thought_lost_declares_its_own_again(
    hw: Headway, travel: Travel, serve: Serve, db: psycopg.Connection[Any]
) -> None:
    await serve(hw, "a", lease="1s")
    # As others would, once its lease is over; from a thread, because it may wait for the worker.
    await asyncio.to_thread(db.execute, "delete from worker")
    await asyncio.to_thread(db.execute, "delete from schedule")
    await eventually(lambda: travel.names() == ["a"])


async def test_what_is_declared_is_there_though_it_was_swept_away_before_the_worker_was_known(
    hw: Headway, travel: Travel, start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old worker cleans up in the moment between a new one's declaring and its signing on."""
    declare(hw, "a")
    swept: list[str] = []

    async def declared_and_swept(self: Declarations) -> None:
        await written_down(self)
        clean = schedules.clean("", ["report"], [], stale=True, now=travel.clock.now())
        swept.extend(await hw._session.client.run(clean))

    written_down = Declarations.declare
    monkeypatch.setattr(Declarations, "declare", declared_and_swept)
    start(lease="1000d")
    await eventually(lambda: swept == ["a"])
    await eventually(lambda: travel.names() == ["a"])


async def test_what_a_person_removed_stays_away_until_the_next_worker_starts(
    hw: Headway, travel: Travel, another: Another, serve: Serve, db: psycopg.Connection[Any]
) -> None:
    running = await serve(
        hw, "a", lease="6s"
    )  # so that it beats soon, and is not given up meanwhile
    await hw.schedules.remove("a")
    beat = "select max(expires_at) from worker"
    before = db.execute(beat).fetchone()
    travel.on("1ms")
    await eventually(lambda: db.execute(beat).fetchone() != before)
    assert travel.names() == []
    await running.stop()
    await serve(another(), "a")
    assert travel.names() == ["a"]


def test_a_rule_that_does_not_exist_is_refused(dsn: str) -> None:
    with pytest.raises(ConfigError, match="schedules"):
        _ = Headway(dsn, schedules="some").settings  # type: ignore[arg-type]
