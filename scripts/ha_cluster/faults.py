"""Faults of the cluster, and their moments."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ha_cluster.cluster import Cluster
from ha_cluster.processes import kill, until

_FROZEN = 28.0
"""Seconds. Longer than Patroni's ttl of 20, so that another node takes over."""
_HELD = 3.0


@dataclass(frozen=True)
class Fault:
    """An action that runs `at` seconds after the load began."""

    at: float
    name: str
    strike: Callable[[Cluster], None]


@dataclass(frozen=True)
class Plan:
    """Faults in their order, and how many seconds the load goes on in all."""

    faults: tuple[Fault, ...]
    seconds: float


@dataclass(frozen=True)
class Struck:
    """A fault that happened, by the wall clock."""

    name: str
    began: float
    promoted: float | None
    """When another node was the primary; none if the primary stayed the same."""


def switch_over(cluster: Cluster) -> None:
    """Do what an operator does for maintenance."""
    cluster.switch_over()


def kill_postmaster(cluster: Cluster) -> None:
    """Kill the primary's postmaster. Patroni is there to see it."""
    kill([cluster.postmaster(_primary(cluster))], signal.SIGKILL)


def freeze(cluster: Cluster) -> None:
    """Stop the whole primary node, and wake its PostgreSQL alone: for 2 s two servers take writes.

    Then the node is killed and started again, as by a watchdog that is late. Without one the cluster
    itself may forget acknowledged commits, also with synchronous replication. Patroni 3.0 that wakes
    may take the lock back. A restarted one resets synchronous_standby_names before it demotes.
    """
    node = _primary(cluster)
    patroni, postgres = cluster.patroni_pid(node), cluster.postgres_pids(node)
    kill([patroni, *postgres], signal.SIGSTOP)
    try:
        time.sleep(_FROZEN)
        kill(postgres, signal.SIGCONT)
        time.sleep(2)
    finally:
        kill([patroni, *cluster.postgres_pids(node)], signal.SIGKILL)
    cluster.start_patroni(node)


def restart_bouncer(cluster: Cluster) -> None:
    """Stop PgBouncer and start it 1.5 s later."""
    cluster.stop_bouncer()
    time.sleep(1.5)
    cluster.start_bouncer()


def kill_node(cluster: Cluster) -> None:
    """Hold replication for a while, then kill the primary's Patroni and PostgreSQL at once.

    With asynchronous replication the jobs of that while are lost, as they must be.
    """
    node = _primary(cluster)
    held = cluster.walsenders(node)
    kill(held, signal.SIGSTOP)
    time.sleep(_HELD)
    kill([cluster.patroni_pid(node), *cluster.postgres_pids(node)], signal.SIGKILL)


PLANS = {
    "full": Plan(
        (
            Fault(25, "switchover", switch_over),
            Fault(65, "kill postmaster", kill_postmaster),
            Fault(110, "freeze", freeze),
            Fault(175, "restart PgBouncer", restart_bouncer),
        ),
        seconds=200,
    ),
    "freeze": Plan((Fault(25, "freeze", freeze),), seconds=90),
    "kill": Plan((Fault(25, "kill node", kill_node),), seconds=75),
}


def carry_out(plan: Plan, cluster: Cluster) -> list[Struck]:
    """Strike as planned. Return when the plan's time is over and there is a primary."""
    began = time.monotonic()
    struck: list[Struck] = []
    for fault in plan.faults:
        time.sleep(max(0.0, began + fault.at - time.monotonic()))
        until("a primary to strike", cluster.primary, within=60)
        before, at = cluster.primary(), time.time()
        print(
            f"ha: {fault.at:.0f} s: {fault.name} (primary: node {before})",
            file=sys.stderr,
            flush=True,
        )
        fault.strike(cluster)
        promoted = None
        if fault.strike is not restart_bouncer:
            until("another primary", partial(_moved, cluster, before), within=60)
            promoted = time.time()
        struck.append(Struck(fault.name, at, promoted))
    time.sleep(max(0.0, began + plan.seconds - time.monotonic()))
    until("a primary at the end", cluster.primary, within=60)
    return struck


def _primary(cluster: Cluster) -> int:
    node = cluster.primary()
    if node is None:
        raise RuntimeError("the cluster has no primary to strike")
    return node


def _moved(cluster: Cluster, before: int | None) -> bool:
    return cluster.primary() not in (None, before)
