"""Calls enqueue middleware around the making of jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import cast

from headway.core.hooks import EnqueueMiddleware, NewJobInfo

log = logging.getLogger("headway.enqueue")


@contextmanager
def enqueuing(
    middleware: Sequence[EnqueueMiddleware],
    new: Sequence[NewJobInfo],
    take: Callable[[NewJobInfo], None],
) -> Generator[None]:
    """Run the middleware around the block, in which the jobs are made.

    `take` is called with each job before they are made, and may refuse its headers. An error before that
    reaches the caller, and no job is made. Afterwards the jobs decide: if they were made, an error of the
    middleware is logged; if not, the caller gets that error whatever the middleware does.
    """
    entered: list[AbstractContextManager[None]] = []
    try:
        for function in middleware:
            generates = cast("Callable[[Sequence[NewJobInfo]], Generator[None]]", function)
            manager = contextmanager(generates)(new)
            manager.__enter__()
            entered.append(manager)
        for job in new:
            take(job)
        yield
    except BaseException as error:
        _leave(entered, error)
        raise
    _leave(entered, None)


def _leave(entered: list[AbstractContextManager[None]], error: BaseException | None) -> None:
    given = (None, None, None) if error is None else (type(error), error, error.__traceback__)
    for manager in reversed(entered):
        try:
            manager.__exit__(*given)
        except Exception as raised:
            if raised is not error:
                log.exception("enqueue middleware raised after its yield")
