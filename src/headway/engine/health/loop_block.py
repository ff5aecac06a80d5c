"""A handler that blocks the event loop: which one, and at which line of code."""

from __future__ import annotations

import linecache
import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

from headway.core.clock import monotonic
from headway.core.duration import in_words

_HEADWAY = f"{Path(__file__).parents[1]}{os.sep}"
_INSTALLED = f"{os.sep}site-packages{os.sep}"
_LIBRARY = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib"))
_LONGEST_LINE = 120


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of code."""

    file: str
    line: int
    code: str

    def words(self, *, code: bool = True) -> str:
        """
        >>> CodeLine("shop/jobs.py", 133, "time.sleep(60)").words()
        'shop/jobs.py:133 `time.sleep(60)`'
        """
        where = f"{self.file}:{self.line}"
        return f"{where} `{self.code}`" if code and self.code else where


@dataclass(slots=True, eq=False)
class LoopBlock:
    """A period in which the event loop was blocked."""

    since: float
    by: str
    """A job and its task, or another asyncio task."""
    place: CodeLine | None
    job_id: str | None = None
    ended_at: float | None = None

    @property
    def seconds(self) -> float:
        """How long it has lasted, or lasted."""
        return max(0.0, (self.ended_at or monotonic()) - self.since)

    def cause(self, *, code: bool = True) -> str:
        """Return what blocks the loop, and where. Without `code`, give only the number of the line."""
        at = "" if self.place is None else f", at {self.place.words(code=code)}"
        return f"by {self.by}{at}"

    def seen_by(self, job_id: str) -> str:
        """Return the note about it in the error of a job's attempt."""
        lasted = in_words(self.seconds)
        if job_id == self.job_id:
            at = "" if self.place is None else f" at {self.place.words()}"
            return f"it blocked the event loop for {lasted}{at}"
        return f"the event loop was blocked for {lasted} {self.cause()}"


def code_objects(frame: FrameType | None) -> set[CodeType]:
    """Return the code objects on a stack."""
    return {each.f_code for each in _stack(frame)}


def place_of(frame: FrameType | None) -> CodeLine | None:
    """Return the innermost line of the user's code, or None if all code is Headway's or Python's.

    An installed package counts as the user's code only if the handler itself is in it.
    """
    found = [each for each in _stack(frame) if _is_foreign(each.f_code.co_filename)]
    if not found:
        return None
    own = [each for each in found if _INSTALLED not in each.f_code.co_filename]
    handler = _package(found[-1])
    inner = (own or [each for each in found if _package(each) == handler])[0]
    file, line = inner.f_code.co_filename, inner.f_lineno
    code = linecache.getline(file, line).strip()
    return CodeLine(_shown(file), line, code[:_LONGEST_LINE])


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_foreign(file: str) -> bool:
    if file.startswith(("<frozen", _HEADWAY)):
        return False
    return _INSTALLED in file or not file.startswith(_LIBRARY)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _shown(file: str) -> str:
    """Return the file relative to the working directory, if it is below it."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file
