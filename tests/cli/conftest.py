"""Commands run against the test's schema: in this process where they only talk to the database."""

from __future__ import annotations

import json
import logging
import re
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import click.testing
import pytest

from headway import Headway
from headway.cli import terminal
from headway.cli.root import root
from tests.cli import shop
from tests.fixtures.processes import WorkerProcess

Result = click.testing.Result
Spawn = Callable[..., WorkerProcess]

APP = "tests.cli.shop:hw"

_PLACE = re.compile(rb"(?m)^using host .*, schema \w+\n")


class Command(Protocol):
    def __call__(self, *words: object, code: int = 0, stdin: str | None = None) -> Result: ...


@pytest.fixture
def app(dsn: str, schema: str) -> Iterator[Headway]:
    """As `hw`, for tests without an event loop."""
    with Headway(dsn, schema=schema) as app:
        yield app


@pytest.fixture
def headway(dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `headway WORDS...` on the test's schema, and checks its exit code.

    The line that names the database, which test_place.py is about, is left out of its standard error.
    """
    monkeypatch.setenv(
        "HEADWAY_DATABASE_URL", "so that it is put back: `--app` with `--dsn` sets it"
    )
    monkeypatch.delenv("HEADWAY_DATABASE_URL")
    place = {"--dsn": dsn, "--schema": schema}

    def run(*words: object, code: int = 0, stdin: str | None = None) -> Result:
        arguments = [str(word) for word in words]
        for option, value in place.items():
            if option not in arguments:
                arguments += [option, value]
        sys.modules.pop("tests.cli.shop", None)  # a command's app is its own
        result = click.testing.CliRunner().invoke(root, arguments, input=stdin)
        assert result.exit_code == code, (result.output, result.exception)
        result.stderr_bytes = _PLACE.sub(b"", result.stderr_bytes or b"", count=1)
        return result

    return run


@pytest.fixture(autouse=True)
def process_state() -> Iterator[None]:
    """Put back the signal handlers and log handlers that `headway worker` sets."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    logger = logging.getLogger()
    logs, level = logger.handlers[:], logger.level
    yield
    logger.handlers[:] = logs
    logger.setLevel(level)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person at the terminal, who types what a test gives as `stdin`."""
    monkeypatch.setattr(terminal, "at_terminal", lambda: True)


@pytest.fixture
def headway_json(headway: Command) -> Callable[..., Any]:
    """As `headway`, with --json; the answer is what it printed."""

    def run(*words: object, code: int = 0) -> Any:
        return json.loads(headway(*words, "--json", code=code).stdout)

    return run


@pytest.fixture
def tasks(app: Headway) -> Headway:
    """The tasks of `shop` on the test's schema, for enqueuing."""
    for task in shop.hw.tasks.values():
        definition = task.definition
        options = {"name": task.name, "queue": definition.queue, "retry": definition.retry}
        app.task(**options, executor=task.definition.executor)(task.definition.function)
    return app
