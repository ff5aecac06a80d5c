"""`headway worker-drain`: make workers finish their jobs and exit, from any machine."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from headway.app import Headway
from headway.cli.exits import CommandFailed
from headway.cli.options import as_json, database
from headway.cli.output import print_json
from headway.cli.parsing import duration
from headway.core.clock import monotonic
from headway.core.duration import in_words

_POLL_INTERVAL = 0.25


@click.command("worker-drain")
@click.argument("workers", metavar="ID...", type=click.IntRange(1), nargs=-1, required=True)
@click.option(
    "--wait",
    type=duration,
    metavar="DURATION",
    help="Wait until they have exited, at most this long.",
)
@as_json
@database
def worker_drain(hw: Headway, workers: Sequence[int], wait: float | None, as_json: bool) -> None:
    """Drain workers: they claim no more jobs, finish running ones within their grace, and exit.

    `headway worker-list` shows the ids. `headway worker --processes` does not replace a drained
    worker, but systemd or Kubernetes may.
    """
    asked = [worker for worker in workers if hw.workers.drain_sync(worker)]
    left = _await_end(hw, asked, wait) if wait is not None else []
    missing = [worker for worker in workers if worker not in asked]
    if as_json:
        print_json({"asked": asked, "not_alive": missing, "not_ended": left})
    else:
        for worker in asked:
            click.echo(_report(worker, wait, left))
    if missing:
        raise CommandFailed(
            f"not alive: {_listed(missing)}; `headway worker-list` shows the workers. "
            "Pull consumers are not workers: stop them where they run"
        )
    if left:
        raise CommandFailed(f"{_listed(left)} did not exit within {in_words(wait or 0)}")


def _await_end(hw: Headway, workers: Sequence[int], wait: float) -> list[int]:
    """Return the workers that are still alive after the wait."""
    deadline = monotonic() + wait
    while True:
        rows = hw.workers.list_sync()
        left = [row.id for row in rows if row.alive and row.id in workers]
        if not left or monotonic() >= deadline:
            return left
        time.sleep(_POLL_INTERVAL)


def _report(worker: int, wait: float | None, left: Sequence[int]) -> str:
    if wait is None:
        return f"asked worker {worker} to drain"
    return f"worker {worker} {'is still draining' if worker in left else 'has drained and exited'}"


def _listed(workers: Sequence[int]) -> str:
    return ", ".join(f"worker {worker}" for worker in workers)
