"""Hostile inputs to what operators do, and to workers, consumers and apps."""

from __future__ import annotations

import functools
from datetime import UTC, datetime
from uuid import UUID

from headway import Headway
from headway.errors import ConfigError, InvalidInput, UnknownTask
from tests.api.hostile import LONG, MISSING, NAIVE, NAN, STEERING, Cases, Gives, Thing, each

PAST = datetime(2000, 1, 1, tzinfo=UTC)

# -- what operators do ----------------------------------------------------------------------------

_QUEUE = {"queue": ["", 5, None, "a\nb", STEERING, LONG]}

OPERATED = (
    each(
        "queues.pause",
        lambda world, **given: world.app.queues.pause_sync(**{"queue": "q"} | given),
        _QUEUE | {"until": ["x", -1, NAIVE, PAST, []]},
    )
    | each("queues.resume", lambda world, **given: world.app.queues.resume_sync(**given), _QUEUE)
    | each(
        "queues.limit",
        lambda world, **given: world.app.queues.limit_sync(**{"queue": "q"} | given),
        {"queue": ["", 5], "concurrency": [-1, "x", True], "rate": ["x", 5], "burst": [1]},
    )
    | each(
        "queues.metrics",
        lambda world, queue: world.app.queues.metrics_sync(queue),
        {"queue": ["", 5]},
    )
    | each(
        "queues.waiting",
        lambda world, **given: world.app.queues.waiting_sync(**{"queue": "q"} | given),
        {"queue": ["", 5], "task": [5, [], Thing()]},
    )
    | each(
        "queues.purge",
        lambda world, **given: world.app.queues.purge_sync(**{"queue": "q"} | given),
        {"queue": ["", 5], "task": [5, []]},
    )
    | each(
        "queues.move",
        lambda world, **given: world.app.queues.move_sync(**{"queue": "q", "to": "p"} | given),
        {"queue": ["", 5, "p"], "to": ["", 5, "q"], "task": [Thing()]},
    )
    | each(
        "queues.drain",
        lambda world, **given: world.app.queues.drain_sync(**{"queue": "q"} | given),
        {"queue": ["", 5], "timeout": ["x", -1]},
    )
    | each(
        "controls.pause",
        lambda world, **given: world.app.controls.pause_sync(**given),
        {"task": ["", 5], "key": ["", 5, "x" * 603], "queue": ["", []], "reason": ["of nothing"]},
    )
    | each(
        "controls.limit",
        lambda world, **given: world.app.controls.limit_sync(**{"concurrency": 1} | given),
        {"task": ["", 5], "keys_of": [""], "queue": [[]], "actor": ["of nothing"]},
    )
    | each(
        "controls.reset",
        lambda world, **given: world.app.controls.reset_sync(**given),
        {"queue": ["", 5], "task": [""], "keys_of": [b"x"]},
    )
    | each(
        "schedules.put",
        lambda world, **given: world.app.schedules.put_sync(
            **{"name": "s", "task": "other", "spec": "@daily"} | given
        ),
        {
            "name": ["", 5, None, "x" * 151],
            "task": [5, None, Thing()],
            "spec": ["x", 5, "2000-01-01T00:00:00", "0 0 31 2 *"],
            "input": [5],
            "jitter": ["x"],
            "ends_at": [PAST],
        },
    )
    | {
        f"schedules.{verb}({name!r})": (
            functools.partial(
                lambda verb, name, world: getattr(world.app.schedules, f"{verb}_sync")(name),
                verb,
                name,
            ),
            ConfigError,
        )
        for verb in ("remove", "pause", "resume", "run", "get", "next")
        for name in ("", 5, "a\0b")
    }
    | each(
        "retry_failed",
        lambda world, **given: world.app.jobs.retry_failed_sync(**given),
        {
            "task": [5, None, Thing()],
            "step": [5],
            "error": [5],
            "since": ["x", NAIVE, -1],
            "limit": [3],
        },
    )
    | each(
        "retry_failed of a task",
        lambda world, limit: world.app.jobs.retry_failed_sync(task="greet", limit=limit),
        {"limit": [0, "x", 1.5, True]},
    )
    | each("failures", lambda world, since: world.app.failures(since), {"since": ["x", NAIVE]})
    | each(
        "drain_worker",
        lambda world, worker: world.app.workers.drain_sync(worker),
        {"worker": ["x", None, True, 1.5, 0, 10**30]},
    )
    | each(
        "job",
        lambda world, job_id: world.app.job(job_id),
        {"job_id": [None, 5, "", "x", [], b"x" * 16, Thing(), MISSING + "0"]},
    )
    | each(
        "result",
        lambda world, timeout: world.app.job(MISSING).result_sync(timeout),
        {"timeout": ["x", -1, [], NAN]},
    )
)

OPERATIONS: Cases = {
    "a pause of two things": (
        lambda world: world.app.controls.pause_sync(queue="a", task="b"),
        ConfigError,
    ),
    "a limit that lets no key in": (
        lambda world: world.app.controls.limit_sync(keys_of="greet", concurrency=0),
        ConfigError,
    ),
    "a pause by position": (lambda world: world.app.controls.pause_sync("q"), TypeError),
    "a pause with an unknown option": (
        lambda world: world.app.queues.pause_sync("q", color=1),
        TypeError,
    ),
    "a move to nowhere": (lambda world: world.app.queues.move_sync("q"), TypeError),
    "a schedule of an unknown task": (
        lambda world: world.app.schedules.put_sync("s", "none", "@daily"),
        UnknownTask,
    ),
    "a schedule without the input": (
        lambda world: world.app.schedules.put_sync("s", "greet", "@daily"),
        InvalidInput,
    ),
    "an edit to None": (lambda world: world.app.job(MISSING).edit_sync(None), InvalidInput),
    "an edit to a list": (
        lambda world: world.app.job(MISSING).edit_sync([1], check=False),
        InvalidInput,
    ),
    "an id in braces": (
        lambda world: world.app.job("{" + MISSING + "}").id,
        Gives(UUID(MISSING)),
    ),
}

# -- workers, consumers, apps ---------------------------------------------------------------------

OPENED = (
    each(
        "worker",
        lambda world, **options: world.app.worker(**options),
        {
            "queues": [
                5,
                [5],
                ["a:x"],
                ["a:0"],
                {"a": "x"},
                {5: 1},
                {"": 1},
                {"a": 0},
                {"a": True},
            ],
            "dedicated": [5, {"*": 1}, {"a": 0}, {"a": 10**9}],
            "order": ["x", 5],
            "concurrency": ["x", 0, True, 1.5, 10**9],
            "lease": ["x", 0, -1, [], "101y"],
            "grace": ["x", -1],
            "poll": [0, "x"],
            "poll_alone": [0],
            "listen": ["x", 1],
            "processes": [-1, "x"],
            "isolation": [0, "x"],
            "batch": [0, "x", 10**9],
            "transactions": [0, "x"],
            "health": ["x", 99_999, True, -1, "a:b:c"],
            "color": [1],
        },
    )
    | each(
        "pull",
        lambda world, **given: world.app.pull(**{"queue": "q"} | given),
        {
            "queue": ["", 5, None, "*"],
            "lease": ["x", 0, "2d", []],
            "count": [0, "x", True, 10**9],
            "tasks": ["greet", [], [5], [""], 5],
        },
    )
    | each(
        "Headway",
        lambda world, **options: Headway(**options),
        {
            "dsn": ["", 5, b"x"],
            "schema": ["A", 5, "a;b", ""],
            "notify": ["x", 1],
            "retention": ["7d", {}],
            "pool_size": [0, "x", True],
            "max_payload_bytes": [0, 1.5],
            "local": [5],
            "embedded": ["x"],
            "name": ["", 5, STEERING],
            "schedules": ["x", []],
            "worker": [5, {"color": 1}, {"concurrency": "x"}, {5: 1}],
        },
    )
)

APPS: Cases = {
    "an app with an unknown option": (lambda world: Headway(color=1), TypeError),
    "an app with two addresses": (
        lambda world: Headway("postgresql://a/b", "postgresql://a/b"),
        TypeError,
    ),
    "an app with half an address": (
        lambda world: Headway("postgresql://[").settings,
        ConfigError,
    ),
    "a pull with an unknown option": (lambda world: world.app.pull("q", color=1), TypeError),
    "a lease of 100 years": (
        lambda world: world.app.settings.worker({"lease": "100y"}).lease,
        Gives("100y"),
    ),
}

OPERATIONS_AND_APPS: Cases = OPERATED | OPERATIONS | OPENED | APPS
