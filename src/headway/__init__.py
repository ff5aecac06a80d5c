"""Headway: durable background jobs on PostgreSQL and nothing else.

    from headway import Headway, Retry

    hw = Headway()                                   # $DATABASE_URL, or an embedded server

    @hw.task(retry=Retry(max_attempts=8), timeout="30s")
    async def welcome(user_id: int, email: str) -> str:
        return f"sent to {email}"

    job = await welcome.enqueue(user_id=1, email="ada@example.com")
    await job.result(timeout="10s")

and, in another process, `headway worker module:hw`.

`Headway` holds the tasks and the connection to the database. `Task.enqueue` makes a `Job`. A worker runs
it and keeps its result. A handler may take a `Context`, get dependencies by `Depends`, and raise
`Fatal` or `Snooze`. Every exception and every type of a public method can be imported from here.
"""

from headway._api.call import Call
from headway._api.new_job import CallOptions
from headway._api.options import FlowOptions, StepOptions, TaskOptions
from headway.app import Headway
from headway.controls import Controls
from headway.core.batch import Batch
from headway.core.check import CheckFinding, CheckReport
from headway.core.config import (
    AppOptions,
    HealthOptions,
    LogOptions,
    Retention,
    SupervisorOptions,
    WorkerOptions,
    WorkerSettings,
)
from headway.core.context import Context, Enqueueable, JobLogger
from headway.core.current import JobInfo, current_job
from headway.core.depends import Depends
from headway.core.failure import Failure
from headway.core.flow import Next
from headway.core.hooks import CallNext, JobEvent, NewJobInfo, SyncCallNext, WorkerEvent
from headway.core.info import (
    Attempt,
    Control,
    FailedJob,
    GroupMember,
    JobGroup,
    JobState,
    JobStatus,
    JobSummary,
    Overview,
    QueueInfo,
    QueueMetrics,
    ScheduleStatus,
    ServerInfo,
    Successor,
    WaitingCount,
    WorkerInfo,
)
from headway.core.keys import Key, Unique
from headway.core.limits import Limit
from headway.core.retry import Retry
from headway.core.schedule import Schedule
from headway.engine.jobs.settler import WorkerReport
from headway.engine.logs import JobFilter
from headway.engine.worker import Worker
from headway.errors import (
    ConfigError,
    DatabaseError,
    DatabaseUnavailable,
    EmbeddedUnavailable,
    Fatal,
    HeadwayError,
    Interrupted,
    InvalidInput,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobNotFound,
    KeyTaken,
    PayloadTooLarge,
    ResultTimeout,
    ScheduleNotFound,
    SchemaMismatch,
    Snooze,
    StandbyRefused,
    UnknownTask,
)
from headway.flow import Flow, Step, StepDecorator
from headway.group import Group
from headway.hooks import EventHooks
from headway.job import Job
from headway.jobs import Jobs
from headway.pull.job import PulledJob
from headway.queues import Queues
from headway.schedules import Schedules, preview
from headway.settings.layers import Setting, Settings
from headway.settings.origin import Origin
from headway.store.connections.dsn import DatabasePlace
from headway.task import BatchDecorator, BoundTask, Task, TaskDecorator
from headway.version import __version__
from headway.workers import Workers

__all__ = [
    "AppOptions",
    "Attempt",
    "Batch",
    "BatchDecorator",
    "BoundTask",
    "Call",
    "CallNext",
    "CallOptions",
    "CheckFinding",
    "CheckReport",
    "ConfigError",
    "Context",
    "Control",
    "Controls",
    "DatabaseError",
    "DatabasePlace",
    "DatabaseUnavailable",
    "Depends",
    "EmbeddedUnavailable",
    "Enqueueable",
    "EventHooks",
    "FailedJob",
    "Failure",
    "Fatal",
    "Flow",
    "FlowOptions",
    "Group",
    "GroupMember",
    "Headway",
    "HeadwayError",
    "HealthOptions",
    "Interrupted",
    "InvalidInput",
    "Job",
    "JobCancelled",
    "JobEvent",
    "JobExpired",
    "JobFailed",
    "JobFilter",
    "JobGroup",
    "JobInfo",
    "JobLogger",
    "JobNotFound",
    "JobState",
    "JobStatus",
    "JobSummary",
    "Jobs",
    "Key",
    "KeyTaken",
    "Limit",
    "LogOptions",
    "NewJobInfo",
    "Next",
    "Origin",
    "Overview",
    "PayloadTooLarge",
    "PulledJob",
    "QueueInfo",
    "QueueMetrics",
    "Queues",
    "ResultTimeout",
    "Retention",
    "Retry",
    "Schedule",
    "ScheduleNotFound",
    "ScheduleStatus",
    "Schedules",
    "SchemaMismatch",
    "ServerInfo",
    "Setting",
    "Settings",
    "Snooze",
    "StandbyRefused",
    "Step",
    "StepDecorator",
    "StepOptions",
    "Successor",
    "SupervisorOptions",
    "SyncCallNext",
    "Task",
    "TaskDecorator",
    "TaskOptions",
    "Unique",
    "UnknownTask",
    "WaitingCount",
    "Worker",
    "WorkerEvent",
    "WorkerInfo",
    "WorkerOptions",
    "WorkerReport",
    "WorkerSettings",
    "Workers",
    "__version__",
    "current_job",
    "preview",
]
