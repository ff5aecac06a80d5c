"""A thread that notices when a worker's event loop is blocked, and by which job.

Several times per second the thread schedules a callback on the loop. If the loop does not run it for most
of a second, the loop is blocked: code runs on it without awaiting. The thread then reads the stack of the
loop's thread and logs the task, the job and the line of code. It also writes a note to the database, over
a connection of its own, because the other connections need the loop.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from headway.core.clock import monotonic
from headway.core.duration import in_words
from headway.engine.health.loop_block import LoopBlock, code_objects, place_of
from headway.engine.running.job import RunningJob
from headway.engine.service import log

_CHECK_EVERY = 0.125
_BLOCKED_AFTER = 0.75
"""Together with the time between two checks, a block is reported within a second."""
_LOGGED_AGAIN_AT = (10.0, 60.0, 600.0, 3600.0)
_NOTED_AFTER = 2.0
_UNNAMED_AFTER = 5.0
"""A loop that is busy with many tasks is reported later than one that a single task blocks."""
_STOOD_STILL = 0.5
"""If the thread itself is this late, the whole process was stopped."""
_ENDS_WITHIN = 2.0

Note = Callable[[str], None]


class LoopWatch:
    """Watches the loop on which it is started, from `start` to `stop`."""

    def __init__(
        self, running: Callable[[], Sequence[RunningJob]], *, lease: float, note: Note
    ) -> None:
        """`running` returns the jobs of the worker. `note` stores a text about the worker.

        `note` blocks, so it is called in a separate thread.
        """
        self._running = running
        self._lease = lease
        self._note = note
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._asked_at = 0.0
        self._answered = True
        self._suspect: object = None
        self._block: LoopBlock | None = None
        self._noted = False
        self._logged = 0
        self._seconds = 0.0
        self.blocks = 0
        """How often the loop was blocked."""

    @property
    def block(self) -> LoopBlock | None:
        """The current block, or None."""
        return self._block

    @property
    def seconds(self) -> float:
        """How long the loop was blocked in total."""
        block = self._block
        return self._seconds + (0.0 if block is None else block.seconds)

    def start(self) -> None:
        """Start watching the loop that runs in this thread."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._run, name="headway-loop-watch", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """End the thread."""
        self._ending.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _ENDS_WITHIN)

    def _run(self) -> None:
        woke_at = monotonic()
        while not self._ending.wait(_CHECK_EVERY):
            now = monotonic()
            if now - woke_at > _CHECK_EVERY + _STOOD_STILL:
                self._asked_at = now  # the whole process stood still, so the loop is not to blame
            woke_at = now
            try:
                if not self._check(now):
                    return
            except Exception:
                log.exception("a check of the event loop failed; checking goes on")

    def _check(self, now: float) -> bool:
        """Check the loop once. Return false if it is closed."""
        if self._answered:
            if self._block is not None:
                self._ended(self._block, now)
            return self._ask(now)
        age = now - self._asked_at
        if self._block is not None:
            self._lasts(self._block)
        elif age >= _BLOCKED_AFTER - _CHECK_EVERY:
            self._suspected(age)
        return True

    def _ask(self, now: float) -> bool:
        assert self._loop is not None, "start() comes first"
        self._answered, self._asked_at, self._suspect = False, now, None
        try:
            self._loop.call_soon_threadsafe(self._answer)
        except RuntimeError:
            return False
        return True

    def _answer(self) -> None:
        self._answered = True

    def _suspected(self, age: float) -> None:
        """Blame a task that runs at two checks in a row: the loop did nothing else in between."""
        task = self._current_task()
        suspect = task if task is not None else self
        if self._suspect is not suspect:
            self._suspect = suspect
            if age < _UNNAMED_AFTER:
                return
        elif age < _BLOCKED_AFTER:
            return
        self._began(task)

    def _current_task(self) -> asyncio.Task[Any] | None:
        return asyncio.current_task(self._loop)

    def _frame(self) -> FrameType | None:
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
        return frames.get(self._loop_thread)

    def _began(self, task: asyncio.Task[Any] | None) -> None:
        frame, jobs = self._frame(), list(self._running())
        by, job_id, fields = _culprit(task, frame, jobs)
        block = LoopBlock(self._asked_at, by, place_of(frame), job_id)
        del frame
        self._block, self._noted, self._logged = block, False, 0
        self.blocks += 1
        for running in jobs:
            running.blocked = block
        self._log(block, fields)

    def _lasts(self, block: LoopBlock) -> None:
        if not self._noted and block.seconds >= _NOTED_AFTER:
            self._noted = True
            text = f"its event loop was blocked {block.cause()}"
            threading.Thread(
                target=self._note, args=[text], name="headway-note", daemon=True
            ).start()
        if self._logged < len(_LOGGED_AGAIN_AT) and block.seconds >= _LOGGED_AGAIN_AT[self._logged]:
            self._logged += 1
            block.place = place_of(self._frame()) or block.place
            self._log(block, {} if block.job_id is None else {"job_id": block.job_id})

    def _log(self, block: LoopBlock, fields: dict[str, Any]) -> None:
        log.error(
            "the event loop has been blocked for %s %s; "
            "write the task as a plain def, or make the blocking call with asyncio.to_thread",
            in_words(block.seconds),
            block.cause(),
            extra=fields | {"blocked_for": round(block.seconds, 3)},
        )

    def _ended(self, block: LoopBlock, now: float) -> None:
        block.ended_at = now
        self._seconds += block.seconds
        self._block = None
        fields = {} if block.job_id is None else {"job_id": block.job_id}
        too_long = block.seconds >= self._lease
        log.log(
            logging.ERROR if too_long else logging.WARNING,
            "the event loop runs again; it was blocked for %s %s%s",
            in_words(block.seconds),
            block.cause(),
            f"; its lease of {in_words(self._lease)} ended meanwhile, and other workers got its jobs"
            if too_long
            else "",
            extra=fields | {"blocked_for": round(block.seconds, 3)},
        )


def _culprit(
    task: asyncio.Task[Any] | None, frame: FrameType | None, jobs: Sequence[RunningJob]
) -> tuple[str, str | None, dict[str, Any]]:
    """Return a description of the code on the loop, its job id if known, and fields for the log."""
    for running in jobs:
        if task is not None and running.task is task:
            claim, handler = running.claim, running.definition.handler
            fields = {"job_id": claim.id, "task": claim.task, "step": claim.step}
            return f"task {handler}, job {claim.id}", claim.id, fields | {"queue": claim.queue}
    codes = code_objects(frame)
    for running in jobs:  # a call for several jobs is a separate asyncio task
        function = inspect.unwrap(running.definition.function)
        if getattr(function, "__code__", None) in codes:
            handler = running.definition.handler
            return f"task {handler}", None, {"task": running.claim.task}
    if task is not None:
        return f"the asyncio task {task.get_name()!r}", None, {}
    return "a callback", None, {}
