"""`headway worker`: serve queues, in this process or in several under a supervisor."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any

import click

from headway.app import Headway
from headway.cli.exits import OK
from headway.cli.loading import load_app
from headway.cli.options import DURATION, QUEUE, given, place
from headway.engine import logs, loop
from headway.engine.supervisor import Leash, Supervisor

log = logging.getLogger("headway.worker")

_LEVELS = ("debug", "info", "warning", "error")


@click.command
@click.argument("app")
@click.option(
    "-q",
    "--queue",
    "queues",
    type=QUEUE,
    multiple=True,
    metavar="NAME[:WEIGHT]",
    help="A queue to serve; repeat for more. Without any: all that the app's tasks name.",
)
@click.option(
    "-c", "--concurrency", type=click.IntRange(1), help="Jobs at once, per process (default: 100)."
)
@click.option("--processes", type=click.IntRange(1), default=1, help="Worker processes.")
@click.option(
    "--grace", type=DURATION, help="How long running jobs may take to finish (default: 30s)."
)
@click.option(
    "--lease", type=DURATION, help="How long it may go unheard before it is lost (default: 30s)."
)
@click.option("--poll", type=DURATION, help="How often to look without being told of work.")
@click.option("--listen/--no-listen", default=True, help="Whether to be told of work by NOTIFY.")
@click.option(
    "--task-processes",
    type=click.IntRange(1),
    help='Processes for tasks with executor="process" (default: one per core).',
)
@click.option("--log-level", type=click.Choice(_LEVELS), default="info", show_default=True)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--leash", type=int, hidden=True)
@place
def worker(
    app: str,
    queues: tuple[tuple[str, int], ...],
    concurrency: int | None,
    processes: int,
    grace: float | None,
    lease: float | None,
    poll: float | None,
    listen: bool,
    task_processes: int | None,
    log_level: str,
    log_format: logs.Format,
    leash: int | None,
    dsn: str | None,
    schema: str | None,
) -> None:
    """Run the jobs of APP, written as module:attribute (attribute `hw` if left out).

    SIGTERM or Ctrl-C drains: running jobs finish, what has not started goes back. A second one
    waits for nobody.
    """
    _leave_on_signals(supervised=leash is not None)
    logs.set_up(log_level, log_format)
    hw = load_app(app, dsn=dsn, schema=schema)
    options = given(
        queues=dict(queues) or None,
        concurrency=concurrency,
        grace=grace,
        lease=lease,
        processes=task_processes,
        listen=listen,
        **{"poll" if listen else "poll_alone": poll},
    )
    if processes > 1:
        hw.worker(**options)  # what cannot work is said once, here, and not by every process
        code = loop.run(_supervise(hw, processes, grace))
    else:
        code = loop.run(_serve(hw, options, leash))
    _leave(code)


async def _serve(hw: Headway, options: Mapping[str, Any], leash: int | None) -> int:
    async with hw:
        worker = hw.worker(**options)
        if leash is None:
            await worker.run(signals=True)
            return OK
        # Ctrl-C reaches the whole group; the supervisor says what it means for us.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        with Leash(leash).watch(worker.stop):
            await worker.run()
        return OK


async def _supervise(hw: Headway, processes: int, grace: float | None) -> int:
    # Held open so that an embedded server outlives any one of the workers.
    async with hw:
        command = [sys.executable, "-m", "headway", *_without_processes(sys.argv[1:])]
        return await Supervisor(command, processes, grace).run()


def _without_processes(arguments: list[str]) -> list[str]:
    """The same command for one process: the last word on an option counts."""
    return [*arguments, "--processes", "1"]


def _leave_on_signals(*, supervised: bool) -> None:
    """Until the worker heeds signals itself there is nothing to drain."""

    def leave(*_: object) -> None:
        raise SystemExit(OK)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN if supervised else leave)


def _leave(code: int) -> None:
    """Ends this process, also when a handler's thread would not stop."""
    stuck = [t for t in threading.enumerate() if t.name.startswith("headway-") and not t.daemon]
    if stuck:
        log.warning("%d threads of handlers did not stop; leaving without them", len(stuck))
        logging.shutdown()
        os._exit(code)
    raise SystemExit(code)
