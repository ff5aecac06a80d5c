"""The systems that are measured: what each needs, how it is configured, and when a job of it is done.

A drain ends when the last row is finished in the database, so each system has a query that counts the
rows that are not. A system without one keeps its jobs in Redis; its handlers' calls are counted instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class System:
    name: str
    program: str
    configuration: str
    packages: tuple[str, ...] = ()
    """The packages of its environment. Without any it runs in that of the repository."""
    node: bool = False
    redis: bool = False
    python: str | None = None
    """The least version of Python, where it is newer than ours."""
    unfinished: str | None = None
    lacks: frozenset[str] = frozenset()
    """Workloads that it has no call for."""
    settings: dict[str, str] = field(default_factory=dict[str, str])
    most: int = 1_000_000
    """The most jobs to drain: slow systems get fewer, so that a run ends."""

    flows: bool = False
    """Its program has a flow of five steps."""

    def does(self, workload: str) -> bool:
        if workload == "flows":
            return self.flows
        if workload == "backlog":
            return self.most >= 1_000_000 and "drain" not in self.lacks and not self.redis
        return workload not in self.lacks


_BARE = "one connection, prepared statements, 500 a batch, a table as wide as Headway's with two indexes"

SYSTEMS = (
    System(
        "bare SQL",
        "bare.py",
        f"psycopg: {_BARE}; no NOTIFY in enqueues",
        unfinished="select count(*) from bare.job where state <> 'd'",
        lacks=frozenset({"pick-up", "mixed"}),
    ),
    System(
        "bare SQL with NOTIFY",
        "bare.py",
        f"psycopg: {_BARE}; each enqueue notifies",
        unfinished="select count(*) from bare.job where state <> 'd'",
        settings={"BENCH_NOTIFY": "1"},
        lacks=frozenset({"bulk", "drain", "drain 2", "pinned"}),
    ),
    System(
        "headway",
        "headway_.py",
        "one worker process on uvloop, results kept for 7 days",
        unfinished="select count(*) from headway.job",
        flows=True,
    ),
    System(
        "graphile-worker",
        "graphile.mjs",
        "Node.js; local queue of 500, batched completion, pool of 10; no results",
        packages=("graphile-worker",),
        node=True,
        unfinished="select count(*) from graphile_worker.jobs",
    ),
    System(
        "pg-boss",
        "pgboss.mjs",
        "Node.js; batches as large as the concurrency, polls every 0.5 s; keeps completed jobs",
        packages=("pg-boss",),
        node=True,
        unfinished="select count(*) from pgboss.job where state < 'completed'",
        most=50_000,
    ),
    System(
        "pgqueuer",
        "pgqueuer_.py",
        "asyncpg, uvloop, batches of up to 500; a log row for each job",
        packages=("pgqueuer[asyncpg]", "uvloop"),
        unfinished="select count(*) from pgqueuer",
        most=50_000,
    ),
    System(
        "procrastinate",
        "procrastinate_.py",
        "psycopg pool of 20, LISTEN/NOTIFY, uvloop; keeps finished jobs",
        packages=("procrastinate", "psycopg[binary]", "uvloop"),
        unfinished="select count(*) from procrastinate_jobs where status in ('todo', 'doing')",
        most=5_000,
    ),
    System(
        "chancy",
        "chancy_.py",
        "async executor, eager polling, pool of 20, uvloop",
        packages=("chancy", "psycopg[binary]", "uvloop"),
        unfinished="select count(*) from chancy_jobs where completed_at is null",
        most=10_000,
    ),
    System(
        "saq",
        "saq_.py",
        "PostgreSQL queue, LISTEN/NOTIFY, pool of 20, uvloop",
        packages=("saq[postgres]", "psycopg[binary]", "uvloop"),
        unfinished="select count(*) from saq_jobs where status in ('new', 'queued', 'active')",
        lacks=frozenset({"bulk"}),
        most=5_000,
    ),
    System(
        "absurd",
        "absurd_.py",
        "async worker, batches as large as the concurrency, polls every 50 ms, uvloop",
        packages=("absurd-sdk", "absurdctl", "psycopg[binary]", "uvloop"),
        unfinished="select count(*) from absurd.t_bench where state in ('pending', 'running')",
        lacks=frozenset({"bulk"}),
        most=3_000,
        flows=True,
    ),
    System(
        "dbos",
        "dbos_.py",
        "async workflows on a queue that polls every 50 ms",
        packages=("dbos", "psycopg[binary]"),
        unfinished="select count(*) from dbos.workflow_status where status in ('ENQUEUED', 'PENDING')",
        lacks=frozenset({"bulk"}),
        most=2_000,
        flows=True,
    ),
    System(
        "celery",
        "celery_.py",
        "Redis as broker and result store without fsync, thread pool of 20, late acknowledgement",
        packages=("celery[redis]",),
        redis=True,
        most=20_000,
    ),
    System(
        "rq",
        "rq_.py",
        "Redis without fsync, SimpleWorker (jobs in the worker's own process)",
        packages=("rq",),
        redis=True,
        most=10_000,
    ),
)
