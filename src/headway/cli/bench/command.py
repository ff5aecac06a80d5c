"""`headway bench`: measure Headway on this database, in a schema that is removed afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from headway.app import Headway
from headway.cli.bench.figures import ADVICE, Figure, Figures
from headway.cli.bench.measure import Bounds, Measurement, Tell
from headway.cli.exits import CommandFailed, complain
from headway.cli.loading import opened, plain_app
from headway.cli.options import as_json, debug
from headway.cli.output import clean, console, print_json, table
from headway.cli.terminal import progress_bar
from headway.core.ids import new_nonce
from headway.engine import loop
from headway.errors import HeadwayError
from headway.store.activity import opened_watch
from headway.store.yardstick import (
    APPLICATION,
    ServerFacts,
    drop_schema,
    named_dsn,
    opened_yardstick,
)


@click.command
@click.option(
    "--jobs",
    type=click.IntRange(100, 1_000_000),
    default=20_000,
    show_default=True,
    help="Most jobs of each measurement.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.2, 300),
    default=3.0,
    show_default=True,
    help="Most seconds of each measurement; there are seven.",
)
@click.option(
    "--chunk",
    type=click.IntRange(1, 50_000),
    default=1_000,
    show_default=True,
    help="Jobs of one bulk call.",
)
@click.option(
    "-c",
    "--concurrency",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Jobs that the worker runs at once.",
)
@click.option(
    "--dsn", metavar="DSN", help="Database to use; `headway --help` says which is the default."
)
@as_json
@debug
def bench(
    jobs: int, seconds: float, chunk: int, concurrency: int, dsn: str | None, as_json: bool
) -> None:
    """Measure how fast jobs are enqueued and run on this database, and what limits it.

    It works in a schema of its own, which it removes at the end, also after Ctrl-C. It loads the
    server: do not run it where that would disturb others.
    """
    schema = f"headway_bench_{new_nonce()}"
    bounds = Bounds(jobs, seconds, chunk, concurrency)
    place = plain_app(dsn, schema)  # it holds an embedded server until the end
    try:
        facts, figures = _bounded_run(place, bounds, quiet=as_json)
    except asyncio.CancelledError:
        raise CommandFailed("stopped by a signal; the schema is removed") from None
    finally:
        place.close_sync()
    if as_json:
        print_json(_document(facts, bounds, figures))
    else:
        _draw(facts, bounds, figures)


@dataclass(slots=True)
class _OwnSchema:
    """The schema of a benchmark, which is removed at the end."""

    dsn: str
    name: str
    exists: bool = False

    @contextmanager
    def removed(self) -> Generator[None]:
        """Remove it at the end of the block, however that ends. Signals wait meanwhile."""
        try:
            yield
        finally:
            if self.exists:
                numbers = (signal.SIGINT, signal.SIGTERM)
                before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
                self._drop()
                for number, handler in before.items():
                    signal.signal(number, handler)

    def _drop(self) -> None:
        try:
            drop_schema(self.dsn, self.name)
        except HeadwayError as error:
            complain(f"schema {self.name} is left: {error}; run DROP SCHEMA {self.name} CASCADE")


def _bounded_run(place: Headway, bounds: Bounds, *, quiet: bool) -> tuple[ServerFacts, Figures]:
    schema = _OwnSchema(named_dsn(place.dsn), place.schema, exists=place.place.embedded)
    if not place.place.embedded:  # `loading` has printed it
        click.echo(f"using {clean(str(place.place))}, which is removed at the end", err=True)
    with schema.removed(), progress_bar("bench", 1.0, quiet=quiet) as tell:
        return loop.run(_measure(schema, bounds, tell))


async def _measure(schema: _OwnSchema, bounds: Bounds, tell: Tell) -> tuple[ServerFacts, Figures]:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    applications = [APPLICATION, f"headway worker {os.getpid()}"]
    async with opened_yardstick(schema.dsn, schema.name) as yardstick:
        facts = await yardstick.facts()
        facts.check()
        schema.exists = True
        hw = plain_app(schema.dsn, schema.name)
        await hw.migrate()
        async with opened(hw):
            with opened_watch(schema.dsn, applications) as watch:
                figures = await Measurement(hw, yardstick, watch, bounds, tell).run()
    return facts, figures


def _document(facts: ServerFacts, bounds: Bounds, figures: Figures) -> dict[str, Any]:
    return {
        "server": {
            "version": facts.version,
            "synchronous_commit": facts.synchronous_commit,
            "fsync": facts.fsync,
        },
        "jobs": bounds.jobs,
        "seconds": bounds.seconds,
        "chunk": bounds.chunk,
        "concurrency": bounds.concurrency,
        **figures.document(),
    }


def _draw(facts: ServerFacts, bounds: Bounds, figures: Figures) -> None:
    shown = table("", "per second>", "p50 ms>", "p99 ms>", "limited by")
    for figure in figures.all.values():
        shown.add_row(figure.name, *_cells(figure))
    screen = console()
    screen.print(
        f"PostgreSQL {clean(facts.version)}, synchronous_commit {facts.synchronous_commit}, "
        f"fsync {facts.fsync}; {bounds.concurrency} slots, {bounds.chunk} jobs a bulk call"
    )
    screen.print(shown)
    if figures.of_bare is not None:
        screen.print(f"enqueue: {figures.of_bare:.2f} of the rate of a bare INSERT")
    if figures.commit_wait is not None:
        screen.print(f"a commit waits {figures.commit_wait * 1000:.2f} ms until it is durable")
    for figure in (figures.enqueue, figures.bulk, figures.drain, figures.pick_up):
        if figure.limit is not None:
            screen.print(f"{figure.name}: {ADVICE[figure.limit]}")


def _cells(figure: Figure) -> list[str]:
    timed = [figure.percentile(share) for share in (0.5, 0.99)]
    paced = figure.name.startswith("pick-up")  # its rate is the producer's
    return [
        "" if paced or figure.rate is None else f"{figure.rate:,.0f}",
        *("" if value is None else f"{value * 1000:.2f}" for value in timed),
        ", ".join(
            f"{cause} {share:.0%}" for cause, share in figure.shares().items() if share >= 0.1
        ),
    ]
