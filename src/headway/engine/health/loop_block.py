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
class Place:
    """A line of code."""

    file: str
    line: int
    code: str

    def words(self, *, code: bool = True) -> str:
        """
        >>> Place("shop/jobs.py", 133, "time.sleep(60)").words()
        'shop/jobs.py:133 `time.sleep(60)`'
        """
        where = f"{self.file}:{self.line}"
        return f"{where} `{self.code}`" if code and self.code else where


@dataclass(slots=True, eq=False)
class Block:
    """A time in which the event loop did not turn."""

    since: float
    by: str
    """A job and its task, or what else runs on the loop."""
    place: Place | None
    job_id: str | None = None
    ended_at: float | None = None

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return max(0.0, (self.ended_at or monotonic()) - self.since)

    def cause(self, *, code: bool = True) -> str:
        """Who blocks the loop, and where. Without `code`, the line is given by its number only."""
        at = "" if self.place is None else f", at {self.place.words(code=code)}"
        return f"by {self.by}{at}"

    def seen_by(self, job_id: str) -> str:
        """What the error of a job's attempt says about it."""
        lasted = in_words(self.seconds)
        if job_id == self.job_id:
            at = "" if self.place is None else f" at {self.place.words()}"
            return f"it blocked the event loop for {lasted}{at}"
        return f"the event loop was blocked for {lasted} {self.cause()}"


def code_objects(frame: FrameType | None) -> set[CodeType]:
    """The code that is on a stack."""
    return {each.f_code for each in _stack(frame)}


def place_of(frame: FrameType | None) -> Place | None:
    """Return the innermost line of the user's own code; none if there is only Headway's and Python's.

    Installed packages are the user's code only if the handler itself is in one of them.
    """
    found = [each for each in _stack(frame) if _is_foreign(each.f_code.co_filename)]
    if not found:
        return None
    own = [each for each in found if _INSTALLED not in each.f_code.co_filename]
    handler = _package(found[-1])
    inner = (own or [each for each in found if _package(each) == handler])[0]
    file, line = inner.f_code.co_filename, inner.f_lineno
    code = linecache.getline(file, line).strip()
    return Place(_shown(file), line, code[:_LONGEST_LINE])


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    """From the innermost outwards."""
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
    """The file as seen from the working directory, if it is below it."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file
