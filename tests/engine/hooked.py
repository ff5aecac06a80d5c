"""Tasks for tests of hooks, at the top of a module, so that a child process finds them."""

from __future__ import annotations

import logging
import os

from headway import Headway, Retry, Task

app = Headway("postgresql://never-used@127.0.0.1:1/none")


def app_on(hw: Headway) -> Headway:
    """Give the tasks of this module to an app that a test made."""
    for name, task in app.tasks.items():
        hw.tasks[name] = Task(hw._session, task.definition)
    return hw


log = logging.getLogger("hooked")
said: list[str] = []


class _Keep(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        said.append(self.format(record))


_handler = _Keep()
_handler.setFormatter(logging.Formatter("%(job_id)s %(task)s %(step)s %(attempt)s %(message)s"))
log.addHandler(_handler)


@app.task
async def say() -> tuple[str, int]:
    log.warning("said")
    return said[-1], os.getpid()


@app.task(executor="process")
def say_in_process() -> tuple[str, int]:
    log.warning("said")
    return said[-1], os.getpid()


@app.task(executor="process", retry=Retry(1))
def fail_in_process() -> None:
    raise ValueError("in a child")
