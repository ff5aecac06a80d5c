"""Faults of processes, of the network and of the server; and the storm that lets them loose.

A fault is an async function of the world. It takes as long as what it breaks stays broken. Those in
`BREAKING` hold up workers. Those of `strangers.py` must not: when a storm is over and the workers are
back, all of them are let loose at once, and every worker has to make progress meanwhile.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Collection
from importlib import resources

import psycopg

from headway.errors import HeadwayError
from tests.crash.proxy import Proxy, opening
from tests.soak import strangers
from tests.soak.world import SCHEMA, Slot, World

Fault = Callable[..., Awaitable[None]]

STORM = 20.0
SIEGE = 25.0
"""How long every stranger holds what he holds, while it is calm."""
_AT_ONCE = 3
"""The most breaking faults that are under way at once, and the most faults by strangers in parallel."""


# -- processes ------------------------------------------------------------------------------------


async def kill(world: World, chance: random.Random) -> None:
    """SIGKILL a worker; its children are left to themselves, or are killed with it."""
    slot = chance.choice(world.targets)
    if slot.process is None or slot.reason:
        return
    slot.reason = "kill"
    world.ledger.fault("kill", f"worker {slot.pid}")
    if chance.random() < 0.5:
        world.send(slot.process, signal.SIGKILL)
    else:
        slot.process.send(signal.SIGKILL)
    await asyncio.sleep(chance.random() * 4)


async def pause(world: World, chance: random.Random) -> None:
    """SIGSTOP a worker for a time around its lease."""
    slot = chance.choice(world.targets)
    if slot.process is None or slot.paused:
        return
    process, slot.paused, since = slot.process, True, time.time()
    seconds = min(slot.lease, 8) * chance.uniform(0.1, 1.8)
    world.ledger.fault("pause", f"worker {slot.pid} for {seconds:.1f} s")
    world.send(process, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        world.send(process, signal.SIGCONT)
        slot.paused = slot.paused and slot.process is not process
        world.ledger.pauses.append((process.pid, since, time.time()))


async def deploy(world: World, chance: random.Random) -> None:
    """Drain the worker with the oldest code, by SIGTERM or from afar; newer code takes its place."""
    slot = min(world.targets, key=lambda slot: (slot.version, chance.random()))
    if slot.process is None or slot.reason:
        return
    if slot.version == world.version:
        world.version += 1
    slot.version, slot.reason = world.version, "deploy"
    world.ledger.fault("deploy", f"version {slot.version} instead of worker {slot.pid}")
    if chance.random() < 0.3:
        await world.rows("select drain(id) from worker where name like %s", f"%:{slot.pid}")
    else:
        slot.process.send(signal.SIGTERM)
    await asyncio.sleep(chance.random() * 5)


async def killer(world: World, chance: random.Random) -> None:
    """Enqueue a job that ends its process, and some bystanders."""
    from tests.soak.app import bystander
    from tests.soak.app import killer as task

    ledger, how = world.ledger, chance.choice(("exit", "signal"))
    ledger.fault("killer", how)
    numbers = [ledger.call("bystander") for _ in range(6)]
    bystanders = await bystander.enqueue_many([{"n": n} for n in numbers])
    ledger.made.update((job.id, "bystander") for job in bystanders)
    job = await task.enqueue(ledger.call("killer"), how)
    ledger.made[job.id] = "killer"
    await asyncio.sleep(5)


# -- the network ----------------------------------------------------------------------------------


def _a_proxy(world: World, chance: random.Random) -> tuple[str, Proxy]:
    slot = chance.choice([slot for slot in world.targets if slot.proxy is not None] + [None])
    if slot is None or slot.proxy is None:
        return "the producers", world.client
    return f"slot {slot.number}", slot.proxy


async def cut(world: World, chance: random.Random) -> None:
    """Reset all connections of one proxy, and refuse new ones for a moment."""
    whose, proxy = _a_proxy(world, chance)
    seconds = chance.choice((0.0, chance.random(), chance.random() * 8))
    world.ledger.fault("cut", f"{whose} for {seconds:.1f} s")
    await asyncio.to_thread(proxy.refuse)
    try:
        await asyncio.sleep(seconds)
    finally:
        proxy.accept()


async def hole(world: World, chance: random.Random) -> None:
    """Swallow everything, in both directions; nothing is closed."""
    whose, proxy = _a_proxy(world, chance)
    seconds = chance.random() * 12
    world.ledger.fault("hole", f"{whose} for {seconds:.1f} s")
    proxy.black_hole()
    try:
        await asyncio.sleep(seconds)
    finally:
        proxy.thaw()


async def strand(world: World, chance: random.Random) -> None:
    """Leave the connections of a worker half open; new ones work."""
    slot = chance.choice([slot for slot in world.targets if slot.proxy is not None])
    world.ledger.fault("strand", f"slot {slot.number}")
    assert slot.proxy is not None
    await asyncio.to_thread(slot.proxy.strand)
    await asyncio.sleep(chance.random() * 5)


async def maroon(world: World, chance: random.Random) -> None:
    """Leave the connections of the producers half open; new ones work."""
    world.ledger.fault("maroon")
    await asyncio.to_thread(world.client.strand)
    await asyncio.sleep(chance.random() * 5)


async def outage(world: World, chance: random.Random) -> None:
    """Cut the worker with the long lease off for more than a minute, a claim of its unanswered."""
    slot: Slot = max(world.slots, key=lambda slot: slot.lease)
    if slot.lease < 90 or slot.proxy is None or slot.reserved:
        return
    slot.reserved, seconds = True, chance.uniform(62, 80)
    world.ledger.fault("outage", f"slot {slot.number} for {seconds:.0f} s")
    try:
        trap = slot.proxy.lose_reply(opening("moves/claim", SCHEMA))
        for _ in range(100):
            if trap.answered.is_set():
                break
            await asyncio.sleep(0.1)
        await asyncio.to_thread(slot.proxy.refuse)
        await asyncio.sleep(seconds)
    finally:
        slot.proxy.accept()
        slot.reserved = False


def _words() -> list[str]:
    """The beginnings of all statements that change jobs, and COMMIT."""
    moves = resources.files("headway.store") / "sql" / "moves"
    names = sorted(file.name.removesuffix(".sql") for file in moves.iterdir())
    return ["COMMIT\0", *(opening(f"moves/{name}", SCHEMA) for name in names)]


async def lose(world: World, chance: random.Random) -> None:
    """Carry out what a client says, and lose the reply."""
    whose, proxy = _a_proxy(world, chance)
    words = chance.choice(_words())
    world.ledger.fault("lose", f"{whose}: {words[:60]!r}")
    proxy.lose_reply(words, times=chance.randrange(1, 4))
    await asyncio.sleep(chance.random() * 2)


# -- the server -----------------------------------------------------------------------------------


async def terminate(world: World, chance: random.Random) -> None:
    """End some of Headway's connections, whatever they are at."""
    share = chance.choice((0.1, 0.5, 1.0))
    world.ledger.fault("terminate", f"{share:.0%} of the backends")
    await world.rows(
        """select pg_terminate_backend(pid) from pg_stat_activity
           where application_name like 'headway%%' and random() < %s""",
        share,
    )
    await asyncio.sleep(chance.random() * 3)


async def restart(world: World, chance: random.Random) -> None:
    """Stop the server in an orderly way and start it again."""
    await _restart(world, chance, "restart", signal.SIGINT)


async def crash(world: World, chance: random.Random) -> None:
    """Stop the server as a crash would and start it again."""
    await _restart(world, chance, "crash", signal.SIGQUIT)


async def _restart(world: World, chance: random.Random, name: str, how: signal.Signals) -> None:
    if world.serving.locked():
        return
    seconds = chance.choice((0.0, chance.random() * 5))
    async with world.serving:
        world.ledger.fault(name, f"the server is away for {seconds:.1f} s")
        await asyncio.to_thread(world.server.stop, how)
        try:
            await asyncio.sleep(seconds)
        finally:
            await asyncio.to_thread(world.server.start)
    await asyncio.sleep(chance.random() * 5)


async def _targets(world: World, chance: random.Random) -> None:
    """Enqueue jobs that run for some seconds, and wait until some do."""
    from tests.soak.app import linger

    numbers = [world.ledger.call("linger") for _ in range(15)]
    calls = [{"n": n, "seconds": 4 + chance.random() * 4} for n in numbers]
    for job in await linger.enqueue_many(calls):
        world.ledger.made[job.id] = "linger"
    for _ in range(100):
        if len(await world.rows("select from job where task = 'linger' and state = 'x'")) > 5:
            break
        await asyncio.sleep(0.1)


BREAKING: dict[str, Fault] = {
    "kill": kill,
    "pause": pause,
    "deploy": deploy,
    "killer": killer,
    "cut": cut,
    "hole": hole,
    "strand": strand,
    "maroon": maroon,
    "outage": outage,
    "lose": lose,
    "terminate": terminate,
    "restart": restart,
    "crash": crash,
}
_RARE = {"restart", "crash", "killer", "outage"}
"""They take all workers down, or take long: a quarter as often as the others."""
HARMLESS: dict[str, Fault] = strangers.FAULTS
NAMES = (*BREAKING, *HARMLESS)


class Storm:
    """Lets faults loose: all kinds in storms, only those of strangers in between."""

    def __init__(self, world: World, chance: random.Random, names: Collection[str]) -> None:
        self._world = world
        self._chance = chance
        self._breaking = {name: fault for name, fault in BREAKING.items() if name in names}
        self._harmless = {name: fault for name, fault in HARMLESS.items() if name in names}

    async def rage(self, seconds: float) -> None:
        """Sieges and storms in turn. When this returns, nothing is broken any more."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if left > SIEGE:
                await self._besiege(SIEGE)
            self._world.ledger.say("a storm")
            storm_ends = time.monotonic() + min(left, STORM)
            async with asyncio.TaskGroup() as group:
                for faults in (self._breaking, self._harmless):
                    for _ in range(_AT_ONCE if faults else 0):
                        # A chance of its own: what others do when does not change what it draws.
                        chance = random.Random(self._chance.random())
                        group.create_task(self._until(storm_ends, faults, chance))
            self._world.ledger.say("it is calm")
            await asyncio.sleep(min(self._world.recovery, max(0.0, deadline - time.monotonic())))

    async def _besiege(self, seconds: float) -> None:
        self._world.ledger.say("a siege")
        await self._guarded("siege", _targets, self._chance)
        since = time.time()
        async with asyncio.TaskGroup() as group:
            for name, fault in self._harmless.items():
                chance = random.Random(self._chance.random())
                group.create_task(self._guarded(name, fault, chance, seconds=seconds))
            await asyncio.sleep(seconds)
        self._world.ledger.calm.append((since, since + seconds))

    async def _until(
        self, deadline: float, faults: dict[str, Fault], chance: random.Random
    ) -> None:
        weights = [1 if name in _RARE else 4 for name in faults]
        while time.monotonic() < deadline:
            await asyncio.sleep(chance.random() * 2)
            ((name, fault),) = chance.choices(list(faults.items()), weights)
            await self._guarded(name, fault, chance)

    async def _guarded(
        self, name: str, fault: Fault, chance: random.Random, **options: float
    ) -> None:
        try:
            await fault(self._world, chance, **options)
        except (psycopg.Error, OSError, HeadwayError) as error:
            words = " ".join(str(error).split())[:100]
            self._world.ledger.say(f"{name} did not get through: {words}")
