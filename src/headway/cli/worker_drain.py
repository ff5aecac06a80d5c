"""`headway worker-drain`: have workers finish and end, from wherever the database can be reached."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from headway.app import Headway
from headway.cli.exits import DoesNotHold
from headway.cli.options import as_json, changed_database, duration
from headway.cli.output import print_json
from headway.core.clock import monotonic
from headway.core.duration import in_words
from headway.store import inspect

_LOOK_EVERY = 0.25


@click.command("worker-drain")
@click.argument("workers", metavar="ID...", type=click.IntRange(1), nargs=-1, required=True)
@click.option(
    "--wait",
    type=duration,
    metavar="DURATION",
    help="Wait until they have ended, for so long at most.",
)
@as_json
@changed_database
def worker_drain(hw: Headway, workers: Sequence[int], wait: float | None, as_json: bool) -> None:
    """Have workers drain: they claim nothing more, finish what runs within their grace, and end.

    `headway worker-list` shows their ids. One under `headway worker --processes` is not started
    again; what else starts workers (systemd, Kubernetes) may.
    """
    asked = [worker for worker in workers if hw.drain_worker_sync(worker)]
    left = _await_end(hw, asked, wait) if wait is not None else []
    missing = [worker for worker in workers if worker not in asked]
    if as_json:
        print_json({"asked": asked, "not_alive": missing, "not_ended": left})
    else:
        for worker in asked:
            click.echo(f"worker {worker} {_becomes(worker, wait, left)}")
    if missing:
        raise DoesNotHold(
            f"no such worker is alive: {_listed(missing)}; `headway worker-list` shows which are. "
            "Consumers that pull are no workers: stop them where they run"
        )
    if left:
        raise DoesNotHold(f"not ended within {in_words(wait or 0)}: worker {_listed(left)}")


def _await_end(hw: Headway, workers: Sequence[int], wait: float) -> list[int]:
    """The workers that are still alive in the end."""
    deadline = monotonic() + wait
    while True:
        rows = hw.session.client.run_sync(inspect.workers(hw.session.clock.now()))
        left = [row.id for row in rows if row.alive and row.id in workers]
        if not left or monotonic() >= deadline:
            return left
        time.sleep(_LOOK_EVERY)


def _becomes(worker: int, wait: float | None, left: Sequence[int]) -> str:
    if wait is None:
        return "was asked to drain"
    return "drains still" if worker in left else "has drained and ended"


def _listed(workers: Sequence[int]) -> str:
    return ", ".join(map(str, workers))
