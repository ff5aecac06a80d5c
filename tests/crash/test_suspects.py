"""B1: one job that kills its process, and those that ran next to it (G6)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.fixtures.processes import WorkerProcess
from tests.support import eventually

pytestmark = pytest.mark.timeout(300)
_APP = "tests.crash.suspect_tasks:hw"


async def _enqueue(hw: Headway, task: str, count: int, **arguments: Any) -> None:
    for n in range(count):
        given = {name: n if value is None else value for name, value in arguments.items()}
        await hw.get_task(task).enqueue(**given)


def _app(dsn: str, schema: str) -> Headway:
    """The tests' own app with the tasks of the workers, by name."""
    app = Headway(dsn, schema=schema)

    @app.task(name="innocent")
    async def innocent(n: int) -> int:
        return n

    @app.task(name="innocent_thread")
    async def innocent_thread(n: int) -> int:
        return n

    @app.task(name="innocent_process")
    async def innocent_process(n: int) -> int:
        return n

    for name in ("killer", "killer_thread", "killer_process"):

        @app.task(name=name)
        async def killer(neighbours: int) -> None: ...

    return app


@pytest.mark.parametrize(
    ("innocent", "killer", "workers", "restarts"),
    [
        ("innocent", "killer", 1, True),
        ("innocent", "killer", 2, False),
        ("innocent_thread", "killer_thread", 1, True),
        ("innocent_thread", "killer", 2, False),
        ("innocent_process", "killer", 2, False),
        ("innocent_process", "killer_process", 1, False),
    ],
)
async def test_b1_only_the_guilty_job_fails(
    spawn_worker: Callable[..., WorkerProcess],
    db: psycopg.Connection[Any],
    dsn: str,
    schema: str,
    tmp_path: Path,
    innocent: str,
    killer: str,
    workers: int,
    restarts: bool,
) -> None:
    """One worker that is started again whenever it dies, and two that nobody starts again: in both
    cases the twenty succeed, the one fails, and a fleet without a supervisor is not killed off."""
    neighbours = 3 if innocent == "innocent_process" else 20  # each needs a process of its own
    app = _app(dsn, schema)
    await _enqueue(app, innocent, neighbours, n=None)
    await _enqueue(app, killer, 1, neighbours=neighbours)

    def spawn() -> WorkerProcess:
        options = ("--concurrency", "30", "--lease", "2s")
        children = {"HEADWAY_WORKER__PROCESSES": str(neighbours + 1)}
        return spawn_worker(_APP, *options, GATES=str(tmp_path), **children)

    # The first has all of them before there is another.
    fleet = [spawn()]
    await eventually(lambda: (tmp_path / "killed").exists(), within=120)
    fleet += [spawn() for _ in range(workers - 1)]

    def ended() -> bool:
        if restarts and fleet[-1].process.poll() is not None:
            fleet.append(spawn())
        return db.execute("select count(*) from job").fetchone() == (0,)

    await eventually(ended, within=240)
    states = db.execute("select task, state::text, count(*) from archive group by 1, 2").fetchall()
    assert sorted(states) == sorted([(innocent, "d", neighbours), (killer, "f", 1)])
    error = db.execute("select error ->> 'type' from archive where state = 'f'").fetchone()
    assert error in (("ProcessDied",), ("WorkerLost",))
    dead = [worker for worker in fleet if worker.process.poll() is not None]
    assert len(dead) <= 1, "after its first crash it runs in a process of its own"
    await app.close()
