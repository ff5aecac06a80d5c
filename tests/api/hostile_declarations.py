"""Hostile inputs to declarations: `hw.task`, `hw.flow`, and the values that they take."""

from __future__ import annotations

import functools
import threading

from headway import Batch, Key, Limit, Retention, Retry, Schedule, Unique, preview
from headway.errors import ConfigError
from tests.api.hostile import INFINITY, LONG, NAIVE, NAN, STEERING, Cases, Gives, Thing, each


class Callable_:
    def __call__(self) -> None: ...


def _plain() -> None: ...


async def _coroutine() -> None: ...


def _no_parameters_of_its_own(*args: int, **kwargs: int) -> None: ...


def _a_self(self: int) -> None: ...


def _a_lock(lock: threading.Lock) -> None: ...


DECLARED = each(
    "task",
    lambda world, **options: world.app.task(**options)(_plain),
    {
        "name": [5, b"x", "a/b", " a", LONG, STEERING, Thing()],
        "queue": ["", 5, None, LONG, "a\nb", "a\u202eb", b"q", []],
        "priority": ["high", 1.5, 40_000, True, None],
        "retry": ["often", -1, 0, True, 1.5, [], {}, 40_000],
        "timeout": ["soon", -1, NAN, INFINITY, True, [], "101y"],
        "delay": ["soon", -1, []],
        "executor": ["fiber", "async", 5, []],
        "slots": ["x", 0, -1, 1.5, True, []],
        "stop_grace": ["soon", -1, []],
        "transaction": ["no", 1, None, []],
        "concurrency_key": ["", 5, LONG, "a\nb", [], b"k"],
        "limit": [5, "10/s", {}, []],
        "ttl": ["soon", -1, []],
        "unique": ["", 5, [], "a\0b"],
        "keep": ["soon", -1, [], True],
        "dead_letter": ["", 5, [], "a\nb"],
        "on_failure": ["", 5, [], Thing(), "a\nb", "_plain"],
        "schedule": ["", "soon", 5, [5], [None], {}, b"@daily", "@every -1s", "0 25 * * *"],
        "batch": [5, "x", True],
        "color": ["red"],
    },
)

FUNCTIONS: Cases = {
    "a task of a number": (lambda world: world.app.task(5), ConfigError),
    "a task of a text": (lambda world: world.app.task("greet"), ConfigError),
    "a task of a partial": (lambda world: world.app.task(functools.partial(_plain)), ConfigError),
    "a task of an object": (lambda world: world.app.task(Callable_()), ConfigError),
    "a task of print": (lambda world: world.app.task(print), ConfigError),
    "a task of *args": (lambda world: world.app.task(_no_parameters_of_its_own), ConfigError),
    "a task of a method": (lambda world: world.app.task(_a_self), ConfigError),
    "a task that takes a lock": (lambda world: world.app.task(_a_lock), ConfigError),
    "a task of a name that is taken": (
        lambda world: world.app.task(name="greet")(_plain),
        ConfigError,
    ),
    "a coroutine in a thread": (
        lambda world: world.app.task(executor="thread")(_coroutine),
        ConfigError,
    ),
    "a local function in a process": (
        lambda world: world.app.task(executor="process")(lambda: None),
        ConfigError,
    ),
    "a batch for a function without a list": (
        lambda world: world.app.task(batch=Batch(10))(_plain).call(),
        ConfigError,
    ),
    "an empty name": (
        lambda world: world.app.task(name="")(_plain).name,
        Gives("_plain"),
    ),
    "a flow named 5": (lambda world: world.app.flow(5), ConfigError),
    "a flow without a name": (lambda world: world.app.flow(""), ConfigError),
    "a flow named as a step": (lambda world: world.app.flow("a/b"), ConfigError),
    "a flow with a state of no type": (lambda world: world.app.flow("f", state=5), ConfigError),
    "a flow with an unknown option": (lambda world: world.app.flow("f", color=1), ConfigError),
    "a flow with a wrong retry": (lambda world: world.app.flow("f", retry="x"), ConfigError),
    "a flow with a wrong queue": (
        lambda world: world.app.flow("f", queue=5).step(_plain),
        ConfigError,
    ),
    "a flow with a wrong timeout": (
        lambda world: world.app.flow("f", timeout="x").step(_plain),
        ConfigError,
    ),
    "a flow without steps": (lambda world: world.app.flow("f").enqueue_sync(), ConfigError),
    "a step of a number": (lambda world: world.app.flow("f").step(5), ConfigError),
    "a chain of a number": (lambda world: world.app.flow("f").chain(5, 5), ConfigError),
    "a chain of a task": (
        lambda world: world.app.flow("f").chain(world.greet, world.greet),
        ConfigError,
    ),
}

# -- values ---------------------------------------------------------------------------------------

VALUES = (
    each(
        "Retry",
        lambda world, **options: Retry(**options),
        {
            "max_attempts": [0, -1, "x", 1.5, True, None, 10**9],
            "backoff": ["x", 5, None, []],
            "base": ["x", -1, [], "2h"],
            "cap": ["x", -1],
            "jitter": ["x", -1, 2, NAN, None, [], True],
            "max_crashes": [0, "x", True, None],
            "on": [ValueError, "x", [ValueError], (5,), None],
            "never": [ValueError, (None,), None],
        },
    )
    | each(
        "Limit",
        lambda world, **options: Limit(**options),
        {
            "concurrency": [None, -1, "x", 1.5, True, 10**9],
            "rate": ["x", 5, "", "0/s", "-1/s", "1/0s", "1e9/s", "1/year", "9" * 400 + "/s"],
            "burst": [1],
            "key": ["k"],
        },
    )
    | each(
        "Limit of a rate",
        lambda world, **options: Limit(rate="1/s", **options),
        {"burst": [0, "x"], "key": [5, ""], "concurrency": [1.5]},
    )
    | each(
        "Batch",
        lambda world, **options: Batch(**{"size": 1} | options),
        {"size": [0, "x", True, 1.5], "wait": ["x", -1, None]},
    )
    | each(
        "Key",
        lambda world, **options: Key(**{"key": "k"} | options),
        {"key": ["", 5, None, "\0"], "limit": [0, "x", True], "ordered": ["x", 1]},
    )
    | each(
        "Unique",
        lambda world, **options: Unique(**{"key": "u"} | options),
        {
            "key": ["", 5, None],
            "policy": ["merge", None, []],
            "scope": ["ever", None],
            "period": ["x", 0, -1],
        },
    )
    | each(
        "Schedule",
        lambda world, **options: Schedule(**{"spec": "@daily"} | options),
        {
            "spec": [
                *("", "x", 5, None, "\0", "x" * 300, "* * * *", "* * * * * * *", "61 * * * *"),
                *("*/0 * * * *", "0 0 30 2 *", "@never", "@every", "@every 0s", "2030-02-30"),
                *("@daily[", "@daily[Mars/Olympus]", "@daily[localtime]", "@daily[../etc/passwd]"),
            ],
            "name": ["", 5, "x" * 151, "a\nb"],
            "input": [5, [], "x"],
            "catch_up": ["x", None, []],
            "max_catch_up": [0, "x", True, 10**9],
            "overlap": ["x", None, {}],
            "jitter": ["x", -1, []],
            "ends_at": ["x", 5, NAIVE],
        },
    )
    | each(
        "Retention",
        lambda world, **options: Retention(**options),
        {"succeeded": ["x", -1, [], True, "200y"], "failed": ["x"]},
    )
)

PAIRS: Cases = {
    "Retry with an unknown option": (lambda world: Retry(color=1), TypeError),
    "Limit by position": (lambda world: Limit(5), TypeError),
    "Batch without a size": (lambda world: Batch(), TypeError),
    "Key without a key": (lambda world: Key(), TypeError),
    "Unique without a key": (lambda world: Unique(), TypeError),
    "Schedule with an unknown option": (lambda world: Schedule("@daily", color=1), TypeError),
    "Limit of nothing": (lambda world: Limit(), ConfigError),
    "Limit that lets no key in": (lambda world: Limit(concurrency=0, key="k"), ConfigError),
    "Limit in digits of another script": (lambda world: Limit(rate="١٠/s").per_second, Gives(10.0)),
    "Key, ordered and two at once": (lambda world: Key("k", limit=2, ordered=True), ConfigError),
    "Unique for a period that replaces": (
        lambda world: Unique("u", policy="replace", period=1),
        ConfigError,
    ),
    "Batch of a thousand million": (lambda world: Batch(10**9).size, Gives(10**9)),
    "preview of nonsense": (lambda world: preview("x"), ConfigError),
    "preview of a number": (lambda world: preview(5), ConfigError),
    "preview of fewer than none": (lambda world: preview("@daily", count=-1), ConfigError),
    "preview after a naive moment": (lambda world: preview("@daily", after=NAIVE), ConfigError),
    "preview of none": (lambda world: preview("@daily", count=0), Gives([])),
}

DECLARATIONS: Cases = DECLARED | FUNCTIONS | VALUES | PAIRS
