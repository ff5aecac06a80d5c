"""Hostile inputs to calls: `using`, `enqueue`, `enqueue_many`; and what a server answers to others."""

from __future__ import annotations

import functools
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

from headway import Job, Retry, Unique
from headway.errors import (
    ConfigError,
    DatabaseError,
    InvalidInput,
    JobNotFound,
    KeyTaken,
    PayloadTooLarge,
    ResultTimeout,
    ScheduleNotFound,
    UnknownTask,
)
from tests.api.hostile import (
    INFINITY,
    MISSING,
    NAIVE,
    NAN,
    STEERING,
    Cases,
    Gives,
    Thing,
    World,
    each,
)

AFTER_TIME = datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))
BEFORE_TIME = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))
PAST = datetime(2000, 1, 1, tzinfo=UTC)


def _nested(levels: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(levels):
        nested = [nested]
    return nested


def _cyclic() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


CALLED = each(
    "using",
    lambda world, **options: world.greet.using(**options).enqueue_sync(1),
    {
        "delay": ["soon", -1, [], NAN, True],
        "at": ["2030", 5, NAIVE, AFTER_TIME, BEFORE_TIME, date(2030, 1, 1)],
        "priority": ["high", 1.5, 40_000, True],
        "queue": ["", 5, STEERING, "a\u202e", []],
        "timeout": ["soon", -1, []],
        "retry": ["often", 0, [], Retry(on=(ValueError,)), Retry(backoff=lambda attempt: 1)],
        "headers": [[1], "x", 5],
        "ttl": ["soon", -1, []],
        "unique": ["", 5, []],
        "concurrency_key": ["", 5, []],
        "state": [5],
        "color": ["red"],
    },
)


def _greet(given: dict[str, Any], world: World) -> Job[Any]:
    return world.greet.enqueue_sync(**given)


ARGUMENTS: Cases = {
    f"greet({what})": (functools.partial(_greet, given), error)
    for what, given, error in [
        ("nothing", {}, InvalidInput),
        ("None", {"number": None}, InvalidInput),
        ("True", {"number": True}, InvalidInput),
        ("1.0", {"number": 1.0}, InvalidInput),
        ("an unknown argument", {"number": 1, "color": "red"}, InvalidInput),
        ("NaN", {"number": 1, "extra": NAN}, InvalidInput),
        ("infinity deep inside", {"number": 1, "extra": {"a": [-INFINITY]}}, InvalidInput),
        ("5,000 digits", {"number": 1, "extra": 10**5_000}, InvalidInput),
        ("100,000 levels", {"number": 1, "extra": _nested(100_000)}, InvalidInput),
        ("a cycle", {"number": 1, "extra": _cyclic()}, InvalidInput),
        ("a key that is not text", {"number": 1, "extra": {(1, 2): 3}}, InvalidInput),
        ("NUL", {"number": 1, "extra": "a\0b"}, InvalidInput),
        ("NUL in a key", {"number": 1, "extra": {"\0": 1}}, InvalidInput),
        ("half a surrogate", {"number": 1, "extra": {"\ud800": 1}}, InvalidInput),
        ("an object", {"number": 1, "extra": Thing()}, InvalidInput),
        ("20 MB", {"number": 1, "extra": "x" * 20_000_000}, PayloadTooLarge),
    ]
}

CALLS: Cases = {
    "delay and at": (lambda world: world.greet.using(delay=1, at=PAST), ConfigError),
    "an option by position": (lambda world: world.greet.using(5), TypeError),
    "headers of numbers": (lambda world: world.greet.using(headers={"a": 1}), InvalidInput),
    "headers with a number as name": (
        lambda world: world.greet.using(headers={1: "a"}),
        InvalidInput,
    ),
    "headers with NUL": (lambda world: world.greet.using(headers={"a": "\0"}), InvalidInput),
    "headers with half a surrogate": (
        lambda world: world.greet.using(headers={"a": "\ud800"}),
        InvalidInput,
    ),
    "headers of 20 MB": (
        lambda world: world.greet.using(headers={"a": "x" * 20_000_000}).enqueue_sync(1),
        PayloadTooLarge,
    ),
    "a key that is a number": (
        lambda world: world.greet.using(concurrency_key=lambda **_: 5).enqueue_sync(1),
        InvalidInput,
    ),
    "a key with a line break": (
        lambda world: world.greet.using(unique=lambda **_: "a\nb").enqueue_sync(1),
        InvalidInput,
    ),
    "a key by a function that takes nothing": (
        lambda world: world.greet.using(unique=lambda: "u").enqueue_sync(1),
        TypeError,
    ),
    "too many arguments": (lambda world: world.greet.enqueue_sync(1, 2, 3), InvalidInput),
    "many: None": (lambda world: world.greet.enqueue_many_sync(None), InvalidInput),
    "many: a number": (lambda world: world.greet.enqueue_many_sync(5), InvalidInput),
    "many: a text": (lambda world: world.greet.enqueue_many_sync("abc"), InvalidInput),
    "many: one mapping": (lambda world: world.greet.enqueue_many_sync({"number": 1}), InvalidInput),
    "many: None inside": (lambda world: world.greet.enqueue_many_sync([None]), InvalidInput),
    "many: a list inside": (lambda world: world.greet.enqueue_many_sync([[1]]), InvalidInput),
    "many: a name that is not text": (
        lambda world: world.greet.enqueue_many_sync([{1: 2}]),
        InvalidInput,
    ),
    "many: one bad call of 1,000": (
        lambda world: world.greet.enqueue_many_sync([{"number": 1}] * 999 + [{"number": "x"}]),
        InvalidInput,
    ),
    "many: a call of another task": (
        lambda world: world.greet.enqueue_many_sync([world.other.call()]),
        InvalidInput,
    ),
    "many: none": (lambda world: world.greet.enqueue_many_sync([]), Gives([])),
    "a task that there is not": (lambda world: world.app.get_task("none"), UnknownTask),
    "a task named None": (lambda world: world.app.get_task(None), UnknownTask),
    "a task named by a list": (lambda world: world.app.get_task([]), UnknownTask),
}

WITHOUT_A_SERVER: Cases = CALLED | ARGUMENTS | CALLS

# -- what the server is asked ---------------------------------------------------------------------


def _stored(job: Job[Any]) -> Any:
    return job.status_sync().input["extra"]


def _taken_twice(world: World) -> Job[Any]:
    unique = world.greet.using(unique=Unique("u", policy="reject"))
    unique.enqueue_sync(1)
    return unique.enqueue_sync(1)


WITH_A_SERVER: Cases = {
    "an integer of 400 digits": (
        lambda world: _stored(world.greet.enqueue_sync(1, extra=10**400)),
        Gives(10**400),
    ),
    "300 levels": (
        lambda world: _stored(world.greet.enqueue_sync(1, extra=_nested(300))),
        Gives(_nested(300)),
    ),
    "bytes": (lambda world: _stored(world.greet.enqueue_sync(1, extra=b"\xff")), Gives("/w==")),
    "a set": (lambda world: _stored(world.greet.enqueue_sync(1, extra={1})), Gives([1])),
    "an exception": (
        lambda world: _stored(world.greet.enqueue_sync(1, extra=ValueError("x"))),
        Gives("ValueError('x')"),
    ),
    "names of Python": (
        lambda world: _stored(world.greet.enqueue_sync(1, extra={"__class__": {}})),
        Gives({"__class__": {}}),
    ),
    "a queue named *": (
        lambda world: world.greet.using(queue="*").enqueue_sync(1).status_sync().queue,
        Gives("*"),
    ),
    "SQL in a queue's name": (
        lambda world: world.greet.using(queue="'; drop table job --").enqueue_sync(1).created,
        Gives(True),
    ),
    "conn is a number": (lambda world: world.greet.using(conn=5).enqueue_sync(1), ConfigError),
    "conn is a text": (lambda world: world.greet.using(conn="x").enqueue_sync(1), ConfigError),
    "conn is an object": (
        lambda world: world.greet.using(conn=Thing()).enqueue_sync(1),
        ConfigError,
    ),
    "conn of a schedule is a number": (
        lambda world: world.app.schedules.put_sync("s", "other", "@daily", conn=5),
        ConfigError,
    ),
    "a unique key that is taken": (_taken_twice, KeyTaken),
    "status of a missing job": (lambda world: world.app.job(MISSING).status_sync(), JobNotFound),
    "cancel of a missing job": (lambda world: world.app.job(MISSING).cancel_sync(), JobNotFound),
    "retry of a missing job": (lambda world: world.app.job(MISSING).retry_sync(), JobNotFound),
    "edit of a missing job": (lambda world: world.app.job(MISSING).edit_sync({}), JobNotFound),
    "result of a missing job": (lambda world: world.app.job(MISSING).result_sync(), JobNotFound),
    "history of a missing job": (lambda world: world.app.job(MISSING).history_sync(), Gives([])),
    "retry from a step with NUL": (lambda world: world.job.retry_sync("\0"), ConfigError),
    "retry from a step of no type": (lambda world: world.job.retry_sync(Thing()), DatabaseError),
    "retry of a waiting job": (lambda world: world.job.retry_sync("none"), Gives(False)),
    "a result within no time": (lambda world: world.job.result_sync(timeout=0), ResultTimeout),
    "an edit that does not fit": (lambda world: world.job.edit_sync({"number": "x"}), InvalidInput),
    "an edit with a number as name": (lambda world: world.job.edit_sync({5: 1}), InvalidInput),
    "an edit with NUL": (
        lambda world: world.job.edit_sync({"number": 1, "extra": "\0"}),
        InvalidInput,
    ),
    "a reason with NUL": (
        lambda world: world.app.queues.pause_sync("q", reason="a\0b"),
        ConfigError,
    ),
    "a reason with half a surrogate": (
        lambda world: world.app.queues.pause_sync("q", reason="\ud800"),
        ConfigError,
    ),
    "a name with NUL": (lambda world: world.app.queues.pause_sync("q", actor="\0"), ConfigError),
    "a reason of no type": (
        lambda world: world.app.queues.pause_sync("q", reason=Thing()),
        DatabaseError,
    ),
    "a queue that there is not": (lambda world: world.app.queues.resume_sync("none"), Gives(False)),
    "metrics of a queue that there is not": (
        lambda world: world.app.queues.metrics_sync("none").ready,
        Gives(0),
    ),
    "purge of a task that there is not": (
        lambda world: world.app.queues.purge_sync("q", task="none"),
        Gives(0),
    ),
    "a limit of nothing": (lambda world: world.app.queues.limit_sync("q"), Gives(None)),
    "a limit that nobody set": (
        lambda world: world.app.controls.reset_sync(task="t"),
        Gives(False),
    ),
    "pause of a missing schedule": (
        lambda world: world.app.schedules.pause_sync("none"),
        ScheduleNotFound,
    ),
    "resume of a missing schedule": (
        lambda world: world.app.schedules.resume_sync("none"),
        ScheduleNotFound,
    ),
    "run of a missing schedule": (
        lambda world: world.app.schedules.run_sync("none"),
        ScheduleNotFound,
    ),
    "remove of a missing schedule": (
        lambda world: world.app.schedules.remove_sync("none"),
        Gives(False),
    ),
    "get of a missing schedule": (lambda world: world.app.schedules.get_sync("none"), Gives(None)),
    "a pattern that is not one": (
        lambda world: world.app.jobs.retry_failed_sync(error="("),
        ConfigError,
    ),
    "a pattern with NUL": (lambda world: world.app.jobs.retry_failed_sync(error="\0"), ConfigError),
    "a worker that there is not": (lambda world: world.app.workers.drain_sync(5), Gives(False)),
}
