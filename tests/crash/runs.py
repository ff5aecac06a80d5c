"""Which run of a job this is, and which worker it runs in: the same in a worker and in a process
of its own.

A crash costs no attempt, so the number of the attempt does not tell runs apart. A file in $GATES does.
"""

from __future__ import annotations

import multiprocessing
import os
from itertools import count
from pathlib import Path

from headway import Context


def next_run(ctx: Context) -> int:
    """Return the number of this run of the job: one more than that of the run before."""
    for number in count(1):
        try:
            Path(os.environ["GATES"], f"run {ctx.job_id} {number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return number
    raise AssertionError("count() never ends")


def worker_pid() -> int:
    """Return the pid of the worker, also in a process that it started for a job."""
    return os.getpid() if multiprocessing.parent_process() is None else os.getppid()
