"""`headway worker`: serve queues, in this process or in several under a supervisor."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from headway.app import Headway
from headway.cli.exits import OK
from headway.cli.loading import Program, load_app, opened, program
from headway.cli.options import given, place
from headway.cli.parsing import duration
from headway.cli.worker.reload import Reloader
from headway.core.address import parse_address
from headway.core.clock import monotonic
from headway.core.config import LogOptions
from headway.core.duration import seconds
from headway.engine import logs, loop
from headway.engine.health.http import check_free
from headway.engine.supervisor import DRAINED, Leash, Supervisor
from headway.errors import ConfigError
from headway.settings.layers import load
from headway.settings.log_config import read_log_config
from headway.settings.notation import read_queues

log = logging.getLogger("headway.worker")

_LEVELS = ("debug", "info", "warning", "error")
_THREADS_END_WITHIN = 0.5


@click.command
@click.argument("app", required=False)
@click.option(
    "-q",
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME[:WEIGHT | =SLOTS]",
    help="Queue to serve, with its weight among the queues that share slots (mail:3) or with slots of "
    "its own (reports=2). '*' means every other queue. Repeatable. Default: the queues of the app's "
    "tasks.",
)
@click.option(
    "--order",
    type=click.Choice(["fair", "strict"]),
    help="fair: queues take turns by weight (default). strict: a queue is served only while the queues "
    "before it are empty.",
)
@click.option(
    "-c",
    "--concurrency",
    type=click.IntRange(1),
    metavar="N",
    help="Jobs that run at once per process (default: 100).",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    metavar="N",
    help="Worker processes, under a supervisor that replaces any that die.",
)
@click.option(
    "--grace",
    type=duration,
    metavar="DURATION",
    help="Time for running jobs to finish when the worker stops (default: 30s).",
)
@click.option(
    "--lease",
    type=duration,
    metavar="DURATION",
    help="Time without a heartbeat after which the worker counts as lost (default: 30s).",
)
@click.option(
    "--poll",
    type=duration,
    metavar="DURATION",
    help="Interval for polling when no notification arrives.",
)
@click.option(
    "--listen/--no-listen",
    default=None,
    help="Wait for notifications of new jobs (NOTIFY), or only poll.",
)
@click.option(
    "--task-processes",
    type=click.IntRange(1),
    metavar="N",
    help='Processes for tasks with executor="process" (default: one per core).',
)
@click.option(
    "--log-level", type=click.Choice(_LEVELS), help="Lowest level to log (default: info)."
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), help="Format of log lines (default: text)."
)
@click.option(
    "--log-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Set up logging by this file instead: a dictionary for logging.config in .json or .toml, or an "
    ".ini file.",
)
@click.option(
    "--health",
    metavar="ADDRESS",
    help="Serve /livez, /readyz and /metrics at this address: 0.0.0.0:8080, or a port on localhost. "
    "Each further process uses the next port.",
)
@click.option(
    "--reload",
    is_flag=True,
    help="For development: start the worker again when a .py, .toml or .env file below the working "
    "directory changes. Running jobs finish first, within --grace.",
)
@click.option("--leash", type=int, hidden=True)
@click.option("--number", type=int, default=0, hidden=True)
@place
def worker(
    app: str | None,
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
    log_config: Path | None,
    health: str | None,
    reload: bool,
    leash: int | None,
    number: int,
    dsn: str | None,
    schema: str | None,
) -> None:
    """Run the jobs of APP, given as module:attribute (default attribute: hw).

    SIGTERM or Ctrl-C drains the worker: running jobs finish, and jobs that have not started go back
    to their queue. A second signal stops the worker at once. Options that are not given come from the
    configuration: `headway config APP`.
    """
    app = app or program().app
    if not app:
        raise click.UsageError("Missing argument 'APP'.")
    _leave_on_signals(supervised=leash is not None)
    configured = load()
    _log_set_up(configured.log, log_level, log_format, log_config).apply()
    if reload and leash is None:
        if (processes or 1) > 1:
            raise ConfigError("--reload runs one process; leave out --processes")
        raise SystemExit(Reloader(partial(_command, program()), Path.cwd()).run())
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


def _log_set_up(
    configured: LogOptions, level: str | None, format_: logs.Format | None, config: Path | None
) -> logs.LogSetUp:
    """Return how to log: the options of the command line come before the configuration."""
    chosen = level is not None or format_ is not None
    if config is not None and chosen:
        raise click.UsageError("--log-config sets level and format; leave out the other options")
    if config is None and not chosen and configured.config is not None:
        config = Path(configured.config)
    if config is None:
        return logs.LogSetUp(level or configured.level, format_ or configured.format)
    return logs.LogSetUp(config=(str(config.absolute()), read_log_config(config)))


def _listens(hw: Headway, listen: bool | None) -> bool:
    return hw.settings.worker().listen if listen is None else listen


async def _serve(hw: Headway, options: Mapping[str, Any], leash: int | None, number: int) -> int:
    worker = hw.worker(**options)  # reports errors of the app before connecting
    async with opened(hw):
        if leash is None:
            await worker.run(signals=True)
            return OK
        # Ctrl-C reaches the whole process group; the supervisor decides and sends SIGTERM.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        with Leash(leash).watch(worker.stop):
            await worker.run(process=number)
        return DRAINED if worker.drained_remotely else OK


async def _supervise(hw: Headway, options: Mapping[str, Any], processes: int) -> int:
    health = hw.settings.worker(options).health
    if health is not None:
        check_free(parse_address(health), processes)
    # Opened for two reasons: the supervisor reports errors once, not every process; and an embedded
    # server outlives any one of the workers.
    hw.worker(**options)
    async with opened(hw):
        grace = seconds(hw.settings.worker(options).grace)
        return await Supervisor(partial(_command, program()), processes, grace=grace).run()


def _command(program: Program, leash: int, number: int) -> list[str]:
    """Return the command that starts one worker under the supervisor."""
    name, *rest = program.arguments
    own = ["--leash", str(leash), "--number", str(number)]
    return [*program.start, name, *own, *rest]


def _leave_on_signals(*, supervised: bool) -> None:
    """Exit on signals until the worker handles them itself: there is nothing to drain yet."""

    def leave(*_: object) -> None:
        raise SystemExit(OK)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN if supervised else leave)


def _leave(code: int) -> NoReturn:
    """End this process, even if a handler's thread does not stop."""
    deadline = monotonic() + _THREADS_END_WITHIN
    threads = [t for t in threading.enumerate() if t.name.startswith("headway-") and not t.daemon]
    for thread in threads:
        thread.join(max(0, deadline - monotonic()))
    if any(thread.is_alive() for thread in threads):
        log.warning("a handler's thread did not stop; exiting anyway")
        logging.shutdown()
        os._exit(code)
    raise SystemExit(code)
