"""G16: every command, as every role: it does its job, or ends with 3, says which role it takes and
changes nothing."""

from __future__ import annotations

import logging
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import click.testing
import pytest

from headway.cli.exits import FAILED, OK, UNREACHABLE
from headway.cli.root import root
from tests.roles.stage import KINDS, STRANGER, Stage
from tests.support import eventually_sync

_ALL = {*KINDS, STRANGER}
_PRODUCERS = {"producer", "worker"}
_READERS = {"reader", "operator", "worker"}
_OPERATORS = {"operator", "worker"}
_WORKERS = {"worker"}
_OWNER: set[str] = set()

Words = Callable[[Stage], tuple[Any, ...]]


def _given(make: Callable[[Stage], Any]) -> Words:
    """A command without words, where there is something to show."""
    return lambda stage: (make(stage),)[:0]


# The roles that may, and the arguments of the command.
_COMMANDS: dict[str, tuple[set[str], Words]] = {
    "init": (_ALL, lambda s: (s.name(),)),
    "migrate": (_OWNER, lambda _: ()),
    "worker": (_WORKERS, lambda _: ("tests.roles.app:hw", "--no-listen")),
    "check": (_READERS, lambda _: ("tests.roles.app:hw", "-q", "a queue without jobs")),
    "worker-list": (_READERS, _given(Stage.alive)),
    "worker-drain": (_OPERATORS, lambda s: (s.alive(),)),
    "job cancel": (_OPERATORS, lambda s: (s.waiting(),)),
    "job edit": (_OPERATORS, lambda s: (s.waiting(), '{"n": 1}')),
    "job enqueue": (_PRODUCERS, lambda _: ("greet",)),
    "job explain": (_READERS, lambda s: (s.waiting(),)),
    "job list": (_READERS, _given(Stage.failed)),
    "job retry": (_OPERATORS, lambda s: (s.failed(),)),
    "job show": (_READERS, lambda s: (s.failed(),)),
    "queue drain": (_OPERATORS, lambda s: (s.busy_queue(),)),
    "queue limit": (_OPERATORS, lambda s: (s.name(), "--concurrency", 2)),
    "queue limits": (_READERS, _given(Stage.limited)),
    "queue list": (_READERS, _given(Stage.busy_queue)),
    "queue metrics": (_READERS, _given(Stage.busy_queue)),
    "queue move": (_OPERATORS, lambda s: (s.busy_queue(), s.name(), "--yes")),
    "queue pause": (_OPERATORS, lambda s: ("--task", s.name())),
    "queue purge": (_OPERATORS, lambda s: (s.busy_queue(), "--yes")),
    "queue resume": (_OPERATORS, lambda s: (s.paused(),)),
    "schedule list": (_READERS, _given(Stage.schedule)),
    "schedule next": (_READERS, lambda s: (s.schedule(),)),
    "schedule pause": (_OPERATORS, lambda s: (s.schedule(),)),
    "schedule put": (_WORKERS, lambda s: (s.name(), "greet", "@yearly")),
    "schedule remove": (_WORKERS, lambda s: (s.schedule(),)),
    "schedule resume": (_OPERATORS, lambda s: (s.paused_schedule(),)),
    "schedule run": (_OPERATORS, lambda s: (s.schedule(),)),
    "errors": (_READERS, _given(Stage.failed)),
    "health": (_READERS, lambda _: ()),
    "bench": (_OWNER, lambda _: ("--jobs", 100, "--seconds", 0.2)),
    "config": (_ALL, lambda _: ()),
}


_REFUSALS = {"migrate": "migrate as the owner", "bench": "may not create a schema"}


def _leaves(group: click.Group, *path: str) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _leaves(command, *path, name)
        else:
            yield " ".join((*path, name))


def test_every_command_is_in_the_table() -> None:
    assert set(_leaves(root)) == _COMMANDS.keys()


@pytest.fixture
def _put_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The parts of the process that `headway worker` takes over, and where `headway init` writes."""
    monkeypatch.setenv("HEADWAY_DATABASE_URL", "so that it is put back: `--dsn` sets it")
    monkeypatch.delenv("HEADWAY_DATABASE_URL")
    monkeypatch.chdir(tmp_path)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    logs, level = logging.getLogger().handlers[:], logging.getLogger().level
    yield
    logging.getLogger().handlers[:] = logs
    logging.getLogger().setLevel(level)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _drain_when_there(stage: Stage) -> threading.Thread:
    """Ends the next worker that registers: `headway worker` runs until someone asks it to end."""
    newest = "select coalesce(max(id), 0) from worker"
    before = stage.hand.value(newest)

    def drain() -> None:
        asked = eventually_sync(lambda: max(stage.hand.value(newest) - before, 0))
        assert stage.hand.call("drain", before + asked)

    thread = threading.Thread(target=drain)
    thread.start()
    return thread


@pytest.mark.usefixtures("_put_back")
@pytest.mark.parametrize("name", _COMMANDS)
def test_g16_a_command_does_what_the_role_may_and_nothing_beyond_it(
    stage: Stage, name: str
) -> None:
    allowed, words = _COMMANDS[name]
    place = [] if name in ("init", "bench") else ["--schema", stage.schema]
    for kind in (*KINDS, STRANGER):
        told, before = [*map(str, words(stage))], stage.contents()
        serving = name == "worker" and kind in allowed
        drain = _drain_when_there(stage) if serving else None
        dsn = [] if name == "init" else ["--dsn", stage.logins[kind]]
        arguments = [*name.split(), *told, *place, *dsn]
        sys.modules.pop("tests.roles.app", None)  # a command's app is its own
        result = click.testing.CliRunner().invoke(root, arguments)
        if drain is not None:
            drain.join()
        said = (kind, result.output, result.exception)
        if kind in allowed:
            # The fleet of the stage need not be in good health.
            assert result.exit_code in (OK, FAILED if name == "health" else OK), said
            continue
        assert result.exit_code == UNREACHABLE, said
        wanted = _REFUSALS.get(name, "needs (the role|one of the roles)")
        assert re.search(wanted, " ".join(result.output.split())), said
        assert stage.contents() == before, f"{kind} was refused, and changed something"
