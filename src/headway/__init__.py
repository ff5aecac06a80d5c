"""Headway: durable background jobs on PostgreSQL and nothing else.

    from headway import Headway, Retry

    hw = Headway()                                   # $DATABASE_URL, or an embedded server

    @hw.task(retry=Retry(max_attempts=8), timeout="30s")
    async def welcome(user_id: int, email: str) -> str:
        return f"sent to {email}"

    job = await welcome.enqueue(user_id=1, email="ada@example.com")
    await job.result(timeout="10s")

and, in another process, `headway worker module:hw`.

`Headway` holds tasks and the way to the database; `Task.enqueue` makes a `Job`; a worker runs it and
keeps its result. A handler may take a `Context`, be given things by `Depends`, and raise `Fatal` or
`Snooze`. Every other exception is in `headway.errors`.
"""

from headway.app import Headway
from headway.calls import Call
from headway.core.batch import Batch
from headway.core.config import Retention, WorkerOptions
from headway.core.context import Context
from headway.core.depends import Depends
from headway.core.failure import Failure
from headway.core.flow import Next
from headway.core.keys import Key, Unique
from headway.core.limits import Limit
from headway.core.retry import Retry
from headway.core.schedule import Schedule
from headway.errors import Fatal, HeadwayError, Interrupted, KeyTaken, Snooze
from headway.flow import Chain, Flow, Step
from headway.handle import Job, JobStatus
from headway.pulled import PulledJob
from headway.queue_changes import QueueMetrics
from headway.schedule import ScheduleStatus, preview
from headway.task import Task
from headway.version import __version__

__all__ = [
    "Batch",
    "Call",
    "Chain",
    "Context",
    "Depends",
    "Failure",
    "Fatal",
    "Flow",
    "Headway",
    "HeadwayError",
    "Interrupted",
    "Job",
    "JobStatus",
    "Key",
    "KeyTaken",
    "Limit",
    "Next",
    "PulledJob",
    "QueueMetrics",
    "Retention",
    "Retry",
    "Schedule",
    "ScheduleStatus",
    "Snooze",
    "Step",
    "Task",
    "Unique",
    "WorkerOptions",
    "__version__",
    "preview",
]
