"""`headway worker`: serve queues, in this process or in several under a supervisor."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import click

from headway.app import Headway
from headway.cli.exits import OK
from headway.cli.loading import load_app
from headway.cli.options import PATIENCE, duration, given, place
from headway.core.address import parse_address
from headway.core.clock import monotonic
from headway.core.duration import seconds
from headway.engine import logs, loop
from headway.engine.health.http import check_free
from headway.engine.supervisor import DRAINED, Leash, Supervisor
from headway.settings.layers import load
from headway.settings.notation import read_queues

log = logging.getLogger("headway.worker")

_LEVELS = ("debug", "info", "warning", "error")
_THREADS_END_WITHIN = 0.5


@click.command
@click.argument("app")
@click.option(
    "-q",
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME[:WEIGHT | =SLOTS]",
    help="A queue to serve, with its weight among those that share slots (mail:3) or with slots of its "
    "own (reports=2); '*' for whatever others there are. Repeat for more. Without any: all that the "
    "app's tasks name.",
)
@click.option(
    "--order",
    type=click.Choice(["fair", "strict"]),
    help="fair: queues take turns by weight (default). strict: in the order given, the next only while "
    "those before it are empty.",
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
@click.option("--listen/--no-listen", default=None, help="Whether to be told of work by NOTIFY.")
@click.option(
    "--task-processes",
    type=click.IntRange(1),
    metavar="N",
    help='Processes for tasks with executor="process" (default: one per core).',
)
@click.option("--log-level", type=click.Choice(_LEVELS), help="(default: info)")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="(default: text)")
@click.option(
    "--health",
    metavar="ADDRESS",
    help="Answer /livez, /readyz and /metrics here: 0.0.0.0:8080, or a port for this machine alone. "
    "Each further process answers one port further.",
)
@click.option("--leash", type=int, hidden=True)
@click.option("--number", type=int, default=0, hidden=True)
@place
def worker(
    app: str,
    queues: tuple[str, ...],
    order: str | None,
    concurrency: int | None,
    processes: int | None,
    grace: float | None,
    lease: float | None,
    poll: float | None,
    listen: bool | None,
    task_processes: int | None,
    log_level: str | None,
    log_format: logs.Format | None,
    health: str | None,
    leash: int | None,
    number: int,
    dsn: str | None,
    schema: str | None,
) -> None:
    """Run the jobs of APP, written as module:attribute (attribute `hw` if left out).

    SIGTERM or Ctrl-C drains: running jobs finish, what has not started goes back. A second one
    waits for nobody. What is not given here is as configured: `headway config APP`.
    """
    _leave_on_signals(supervised=leash is not None)
    configured = load()
    logs.set_up(log_level or configured.log.level, log_format or configured.log.format)
    hw = load_app(app, dsn=dsn, schema=schema)
    named = read_queues(queues)
    options = given(
        queues=named.queues if queues else None,
        dedicated=named.dedicated if queues else None,
        order=order,
        concurrency=concurrency,
        grace=grace,
        lease=lease,
        processes=task_processes,
        listen=listen,
        health=health,
        **{"poll" if _listens(hw, listen) else "poll_alone": poll},
    )
    processes = processes or configured.supervisor.processes
    if processes > 1 and leash is None:
        _leave(loop.run(_supervise(hw, options, processes)))
    _leave(loop.run(_serve(hw, options, leash, number)))


def _listens(hw: Headway, listen: bool | None) -> bool:
    return hw.settings.worker().listen if listen is None else listen


async def _serve(hw: Headway, options: Mapping[str, Any], leash: int | None, number: int) -> int:
    worker = hw.worker(**options)  # complains of the app before the database is asked
    async with _opened(hw):
        if leash is None:
            await worker.run(signals=True)
            return OK
        # Ctrl-C reaches the whole group; the supervisor says what it means for us.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        with Leash(leash).watch(worker.stop):
            await worker.run(process=number)
        return DRAINED if worker.drained_from_afar else OK


async def _supervise(hw: Headway, options: Mapping[str, Any], processes: int) -> int:
    health = hw.settings.worker(options).health
    if health is not None:
        check_free(parse_address(health), processes)
    # Opened for two reasons: what cannot work is said once, here, and not by every process; and an
    # embedded server outlives any one of the workers.
    hw.worker(**options)
    async with _opened(hw):
        grace = seconds(hw.settings.worker(options).grace)
        return await Supervisor(_command, processes, grace=grace).run()


@asynccontextmanager
async def _opened(hw: Headway) -> AsyncGenerator[None]:
    """The app, opened: someone at the terminal learns soon that it cannot be, jobs have their time."""
    hw.session.patience = PATIENCE
    async with hw:
        hw.session.client.patience = None
        yield


def _command(leash: int, number: int) -> list[str]:
    """This command again, for one worker."""
    name, *rest = sys.argv[1:]
    own = ["--leash", str(leash), "--number", str(number)]
    return [sys.executable, "-m", "headway", name, *own, *rest]


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
