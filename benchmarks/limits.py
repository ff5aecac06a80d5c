"""The cost of limits, the precision of rates, and the fairness between keys.

    .venv/bin/python -m benchmarks.limits [--jobs 20000] [--rounds 3] [--part cost] [--part two]
        [--part rates] [--part fairness] [--rate 1000] [--seconds 4] [--dsn DSN]

cost: a worker over a backlog of no-op async jobs under a limit of each kind, and none. Limits that are
    as high as the worker's slots, or a million starts a second, change nothing but what it costs to keep
    them; those that bind (50 at once) also make batches smaller.
two: the same with two worker processes on one limit, and two without.
rates: limits of `--rate` starts a second for about `--seconds`, one worker and two. How many started,
    by the database's own record, against what was allowed; and by how many the starts of any stretch
    of time exceeded it at most.
fairness: 50 keys, one of them with a hundred times the jobs of each other and first in line, until so
    many have run as would take all others to their end. The share of each key in each tenth of the
    run against its due: an equal part for each key that has jobs left. Jain's index is 1 if all get
    their due, 1/50 if one gets everything.

All in one run and interleaved.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg

from benchmarks.measure import (
    Meter,
    Reading,
    arguments,
    clean,
    compare,
    drain,
    drain_by,
    machine,
    ratios,
    server,
    settle_down,
    table,
)
from headway import Headway, Limit

_SLOTS = 2_000
_KEYS = 50
_OFTEN = 100


def of_key(key: int, **_: object) -> str:
    return f"key-{key}"


@dataclass(frozen=True, slots=True)
class Setting:
    """Limits of the queue, of the task and of each key, and how many keys and workers there are."""

    queue: Limit | None = None
    task: Limit | None = None
    each: Limit | None = None
    keys: int = 1
    workers: int = 1


def at_once(count: int) -> Limit:
    return Limit(concurrency=count)


def a_second(count: int) -> Limit:
    return Limit(rate=f"{count}/s")


def each_key(concurrency: int | None = None, rate: int | None = None) -> Limit:
    return Limit(concurrency=concurrency, rate=rate and f"{rate}/s", key=of_key)


NO_LIMIT = "no limit"
COST: dict[str, Setting] = {
    NO_LIMIT: Setting(),
    "queue, as many as slots": Setting(queue=at_once(_SLOTS)),
    "task, as many as slots": Setting(task=at_once(_SLOTS)),
    "each of 1,000 keys, five": Setting(each=each_key(5), keys=1_000),
    "each of 50 keys, a hundred": Setting(each=each_key(100), keys=50),
    "queue, a million a second": Setting(queue=a_second(1_000_000)),
    "task, a million a second": Setting(task=a_second(1_000_000)),
    "each of 1,000 keys, a million a second": Setting(each=each_key(rate=1_000_000), keys=1_000),
    "binding: queue, 50 at once": Setting(queue=at_once(50)),
    "binding: task, 50 at once": Setting(task=at_once(50)),
    "binding: each of 50 keys, one": Setting(each=each_key(1), keys=50),
}
TWO: dict[str, Setting] = {
    NO_LIMIT: Setting(workers=2),
    "queue, as many as slots": Setting(queue=at_once(2 * _SLOTS), workers=2),
    "task, as many as slots": Setting(task=at_once(2 * _SLOTS), workers=2),
    "each of 1,000 keys, five": Setting(each=each_key(5), keys=1_000, workers=2),
    "queue, a million a second": Setting(queue=a_second(1_000_000), workers=2),
    "binding: queue, 50 at once": Setting(queue=at_once(50), workers=2),
}


def rates(rate: int) -> dict[str, Setting]:
    one = {
        "queue": Setting(queue=a_second(rate)),
        "task": Setting(task=a_second(rate)),
        f"each of {_KEYS} keys": Setting(each=each_key(rate=rate // _KEYS), keys=_KEYS),
    }
    two = {
        f"{name}, two workers": Setting(it.queue, it.task, it.each, it.keys, workers=2)
        for name, it in one.items()
    }
    return one | two


def app(dsn: str, *, each: Limit | None = None) -> Headway:
    hw = Headway(dsn)

    @hw.task(limit=each)
    async def noop(key: int, n: int) -> int:
        return n

    return hw


async def run(dsn: str, setting: Setting, keys: Sequence[int], until: int | None = None) -> Reading:
    """Make a job for each of `keys`. Drain all of them, or the given number."""
    count = until or len(keys)
    async with app(dsn, each=setting.each) as hw:
        await clean(hw)
        for limit, name in (
            (setting.queue, {"queue": "default"}),
            (setting.task, {"task": "noop"}),
        ):
            if limit is not None:
                await hw.controls.limit(
                    **name, concurrency=limit.concurrency, rate=limit.rate, burst=limit.burst
                )
        for start in range(0, len(keys), 20_000):
            some = enumerate(keys[start : start + 20_000], start)
            await hw.tasks["noop"].enqueue_many({"key": key, "n": n} for n, key in some)
        await settle_down(hw)
        meter = Meter(hw.dsn)
        try:
            if setting.workers == 1:
                return await drain(hw, count, meter, concurrency=_SLOTS)
            made = partial(app, each=setting.each)
            return drain_by(setting.workers, made, hw.dsn, count, meter, concurrency=_SLOTS)
        finally:
            meter.close()


def even(setting: Setting, count: int) -> list[int]:
    """Make this many jobs, spread over its keys."""
    return [n % setting.keys for n in range(count)]


def cost(dsn: str, settings: Mapping[str, Setting], count: int, rounds: int) -> None:
    cases = {name: partial(run, dsn, it, even(it, count)) for name, it in settings.items()}
    readings = compare(cases, rounds)
    table(readings, "jobs")
    ratios(readings, NO_LIMIT)


# -- rates ----------------------------------------------------------------------------------------


def exactness(dsn: str, rate: int, seconds: float, rounds: int) -> None:
    found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)

    async def recorded(name: str, setting: Setting, count: int) -> Reading:
        reading = await run(dsn, setting, even(setting, count))
        found[name] += met(setting, starts(dsn))
        return reading

    settings = rates(rate)
    count = round(rate * seconds)
    cases = {name: partial(recorded, name, it, count) for name, it in settings.items()}
    readings = compare(cases, rounds)
    table(readings, "jobs")
    print(
        f"\n{rate:,.0f} a second: started, of what was allowed; the most beyond it in any stretch"
    )
    for name, figures in found.items():
        shares, excesses = sorted(share for share, _ in figures), [more for _, more in figures]
        middle = shares[len(shares) // 2]
        print(f"  {name:32} {middle:.2%} (worst {shares[0]:.2%}), {max(excesses):+.2f} starts")


def starts(dsn: str) -> list[tuple[int, float]]:
    """The key and the moment of every start, in order."""
    with psycopg.connect(dsn) as conn:
        return conn.execute(
            "select (input->>'key')::integer, extract(epoch from started_at)::double precision "
            "from headway.archive order by 2"
        ).fetchall()


def met(setting: Setting, record: Iterable[tuple[int, float]]) -> list[tuple[float, float]]:
    """Of each that has a rate: the share of what was allowed, and the most beyond it."""
    limit = setting.queue or setting.task or setting.each
    assert limit is not None
    rate, burst = limit.per_second, limit.at_once
    assert rate is not None
    assert burst is not None
    moments: defaultdict[int, list[float]] = defaultdict(list)
    for key, moment in record:
        moments[key if setting.each else 0].append(moment)
    found: list[tuple[float, float]] = []
    for times in moments.values():
        share = len(times) / (burst + rate * (times[-1] - times[0]))
        # Between two starts there are at most the burst, and what was earned meanwhile.
        least, most = float("inf"), float("-inf")
        for number, moment in enumerate(times):
            ahead = number - rate * (moment - times[0])
            least = min(least, ahead)
            most = max(most, ahead - least + 1 - burst)
        found.append((share, most))
    return found


# -- fairness -------------------------------------------------------------------------------------


def fairness(dsn: str, count: int, rounds: int) -> None:
    few = max(10, count // (_OFTEN + _KEYS - 1))
    keys = [0] * (few * _OFTEN)
    rest = [key for key in range(1, _KEYS) for _ in range(few)]
    random.Random(1).shuffle(rest)
    keys += rest
    until = _KEYS * few
    settings = {
        NO_LIMIT: Setting(),
        "each key, two at once": Setting(each=each_key(2)),
        "each key, two at once, two workers": Setting(each=each_key(2), workers=2),
    }
    tenths: defaultdict[str, list[list[tuple[float, float]]]] = defaultdict(list)

    async def recorded(name: str, setting: Setting) -> Reading:
        reading = await run(dsn, setting, keys, until)
        tenths[name].append(shares([key for key, _ in starts(dsn)][:until], Counter(keys)))
        return reading

    readings = compare({name: partial(recorded, name, it) for name, it in settings.items()}, rounds)
    table(readings, "jobs")
    print(
        f"\n{_KEYS} keys, one with {few * _OFTEN:,} jobs and first in line, the others with {few:,}"
    )
    print("Jain's index / the worst key's share of its due, by tenths of the run; median round")
    for name, runs in tenths.items():
        print(f"  {name}")
        middle = sorted(runs, key=lambda run: min(index for index, _ in run))[len(runs) // 2]
        print("    " + "  ".join(f"{index:.3f}/{worst:.2f}" for index, worst in middle))


def shares(started: Sequence[int], left: Counter[int]) -> list[tuple[float, float]]:
    """For each tenth of the starts: Jain's index and the worst key, each against its due."""
    found: list[tuple[float, float]] = []
    for number in range(10):
        part = started[len(started) * number // 10 : len(started) * (number + 1) // 10]
        got, due = Counter(part), dues(left, len(part))
        got_of_due = [got[key] / due[key] for key in due]
        index = sum(got_of_due) ** 2 / (len(due) * sum(share**2 for share in got_of_due))
        found.append((index, min(got_of_due)))
        left -= got
    return found


def dues(left: Mapping[int, int], room: int) -> dict[int, float]:
    """Return the due share of each key: as much as the others have, or all it has left."""
    due: dict[int, float] = {}
    remaining = float(room)
    for place, key in enumerate(sorted(left, key=lambda key: left[key])):
        due[key] = min(left[key], remaining / (len(left) - place))
        remaining -= due[key]
    return due


def main() -> None:
    parser = arguments(__doc__, jobs=20_000, rounds=3)
    parts = ["cost", "two", "rates", "fairness"]
    parser.add_argument("--part", action="append", choices=parts)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    chosen = options.part or parts
    with tempfile.TemporaryDirectory() as folder, server(options.dsn, Path(folder)) as dsn:
        Headway(dsn).migrate_sync()
        print(f"{options.jobs:,} jobs, {options.rounds} rounds; {machine(dsn)}")
        if "cost" in chosen:
            print("\none worker")
            cost(dsn, COST, options.jobs, options.rounds)
        if "two" in chosen:
            print("\ntwo workers")
            cost(dsn, TWO, options.jobs, options.rounds)
        if "rates" in chosen:
            print(f"\n{options.rate:,.0f} starts a second")
            exactness(dsn, options.rate, options.seconds, options.rounds)
        if "fairness" in chosen:
            print("\nfairness")
            fairness(dsn, options.jobs, options.rounds)


if __name__ == "__main__":
    main()
