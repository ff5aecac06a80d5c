"""`headway worker`: serve queues, in this process or in several under a supervisor."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from headway.app import Headway
from headway.cli.exits import OK
from headway.cli.loading import load_app
from headway.cli.options import duration, given, place, weighted_queue
from headway.core.clock import monotonic
from headway.core.config import WorkerOptions
from headway.core.duration import seconds
from headway.engine import logs, loop
from headway.engine.supervisor import Leash, Supervisor

log = logging.getLogger("headway.worker")

_LEVELS = ("debug", "info", "warning", "error")
_THREADS_END_WITHIN = 0.5


@click.command
@click.argument("app")
@click.option(
    "-q",
    "--queue",
    "queues",
    type=weighted_queue,
    multiple=True,
    metavar="NAME[:WEIGHT]",
    help="A queue to serve; repeat for more. Without any: all that the app's tasks name.",
)
@click.option(
    "-c",
    "--concurrency",
    type=click.IntRange(1),
    metavar="N",
    help="Jobs at once, per process (default: 100).",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Worker processes, under a supervisor that starts the dead again.",
)
@click.option(
    "--grace",
    type=duration,
    metavar="DURATION",
    help="How long running jobs may take to finish (default: 30s).",
)
@click.option(
    "--lease",
    type=duration,
    metavar="DURATION",
    help="How long it may go unheard before it is lost (default: 30s).",
)
@click.option(
    "--poll",
    type=duration,
    metavar="DURATION",
    help="How often to look without being told of work.",
)
@click.option("--listen/--no-listen", default=True, help="Whether to be told of work by NOTIFY.")
@click.option(
    "--task-processes",
    type=click.IntRange(1),
    metavar="N",
    help='Processes for tasks with executor="process" (default: one per core).',
)
@click.option("--log-level", type=click.Choice(_LEVELS), default="info", show_default=True)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True
)
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
    if processes > 1 and leash is None:
        _leave(loop.run(_supervise(hw, options, processes)))
    _leave(loop.run(_serve(hw, options, leash)))


async def _serve(hw: Headway, options: Mapping[str, Any], leash: int | None) -> int:
    worker = hw.worker(**options)  # complains of the app before the database is asked
    async with hw:
        if leash is None:
            await worker.run(signals=True)
            return OK
        # Ctrl-C reaches the whole group; the supervisor says what it means for us.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        with Leash(leash).watch(worker.stop):
            await worker.run()
        return OK


async def _supervise(hw: Headway, options: Mapping[str, Any], processes: int) -> int:
    # Opened for two reasons: what cannot work is said once, here, and not by every process; and an
    # embedded server outlives any one of the workers.
    hw.worker(**options)
    async with hw:
        grace = seconds(WorkerOptions(**options).grace)
        return await Supervisor(_command, processes, grace=grace).run()


def _command(leash: int) -> list[str]:
    """This command again, for one worker."""
    name, *rest = sys.argv[1:]
    return [sys.executable, "-m", "headway", name, "--leash", str(leash), *rest]


def _leave_on_signals(*, supervised: bool) -> None:
    """Until the worker heeds signals itself there is nothing to drain."""

    def leave(*_: object) -> None:
        raise SystemExit(OK)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN if supervised else leave)


def _leave(code: int) -> NoReturn:
    """Ends this process, also when a handler's thread would not stop."""
    deadline = monotonic() + _THREADS_END_WITHIN
    threads = [t for t in threading.enumerate() if t.name.startswith("headway-") and not t.daemon]
    for thread in threads:
        thread.join(max(0, deadline - monotonic()))
    if any(thread.is_alive() for thread in threads):
        log.warning("a handler's thread did not stop; leaving without it")
        logging.shutdown()
        os._exit(code)
    raise SystemExit(code)
