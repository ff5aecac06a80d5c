"""Failures of jobs in a test: each fails the test, unless the test expects it."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from headway.core.failure import WORKER_LOST
from headway.errors import ConfigError
from headway.store.rows import BrokenAttempt

_FAILED = "f"


@dataclass(frozen=True, slots=True)
class JobFailure:
    """An attempt of a job that ended with an error."""

    job_id: UUID
    handler: str
    """The task, or `flow/step`."""
    attempt: int
    final: bool
    """Whether the job failed for good. Otherwise it was to be tried again."""
    type: str
    message: str
    traceback: str
    exception: BaseException | None = None
    """The exception itself, if the handler raised it in this process."""

    def __str__(self) -> str:
        how = "failed" if self.final else "failed and is tried again"
        what = f"attempt {self.attempt} of {self.handler} {self.job_id}"
        return f"{what} {how}: {self.type}: {self.message}"


class JobsFailed(AssertionError):
    """Jobs failed, and the test did not expect it."""

    def __init__(self, failures: list[JobFailure]) -> None:
        self.failures = failures
        lines = [str(failure) for failure in failures]
        traceback = failures[0].traceback.rstrip()
        shown = [traceback] if traceback and failures[0].exception is None else []
        hint = "if the test wants this, run it in `with headway.expect_failure(...):`"
        super().__init__("\n".join([*lines, *shown, hint]))


@dataclass(slots=True, eq=False)
class ExpectedFailure:
    """Accepts failures, and records them."""

    handler: str | None
    error: type[BaseException] | str | None
    match: str | None
    failures: list[JobFailure] = field(default_factory=list[JobFailure])
    """The failures that came, oldest first."""

    @property
    def failure(self) -> JobFailure:
        """The last failure."""
        return self.failures[-1]

    def accepts(self, failure: JobFailure) -> bool:
        """Return whether this is an expected failure, and record it."""
        task = failure.handler.partition("/")[0]
        expected = (
            self.handler in (None, failure.handler, task)
            and self._is_of_type(failure)
            and (self.match is None or re.search(self.match, failure.message) is not None)
        )
        if expected:
            self.failures.append(failure)
        return expected

    def _is_of_type(self, failure: JobFailure) -> bool:
        if self.error is None:
            return True
        if isinstance(self.error, str):
            return self.error in (failure.type, failure.type.rpartition(".")[2])
        if failure.exception is not None:
            return isinstance(failure.exception, self.error)
        return self.error.__qualname__ == failure.type.removeprefix(f"{self.error.__module__}.")

    def __str__(self) -> str:
        error = self.error.__qualname__ if isinstance(self.error, type) else self.error
        words = [f"of {self.handler}" if self.handler else "", f"with {error}" if error else ""]
        words.append(f"matching {self.match!r}" if self.match else "")
        return " ".join(["a failure", *(word for word in words if word)])


class Failures:
    """The failures of one test."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()
        self._expected: list[ExpectedFailure] = []

    def check(
        self,
        broken: Iterable[BrokenAttempt],
        ended: Callable[[str], bool],
        raised: Callable[[BrokenAttempt], BaseException | None],
        *,
        final_only: bool = False,
    ) -> None:
        """Raise JobsFailed if an attempt failed that nobody expects and nobody was told of.

        An attempt that was tried again is not a failure if its job has `ended` since, or if a crash
        ended it, or with `final_only`.
        """
        unexpected: list[JobFailure] = []
        for one in broken:
            if (one.job_id, one.claim) in self._seen:
                continue
            final = one.outcome == _FAILED
            if not final and one.error.get("type") == WORKER_LOST:
                continue
            failure = _failure(one, final, raised(one))
            if next((one for one in self._expected if one.accepts(failure)), None) is not None:
                self._seen.add((one.job_id, one.claim))
            elif final or not (final_only or ended(one.job_id)):
                self._seen.add((one.job_id, one.claim))
                unexpected.append(failure)
        if unexpected:
            raise JobsFailed(unexpected) from unexpected[0].exception

    @contextmanager
    def expect(
        self,
        handler: str | None,
        error: type[BaseException] | str | None,
        match: str | None,
        look: Callable[[], None],
    ) -> Generator[ExpectedFailure]:
        """Accept failures inside, and raise AssertionError if none comes. `look` looks for them."""
        if error is not None and not isinstance(error, (str, type)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"error={error!r} must be an exception class, or its name")
        expected = ExpectedFailure(handler, error, match)
        self._expected.append(expected)
        try:
            yield expected
            look()
        finally:
            self._expected.remove(expected)
        if not expected.failures:
            raise AssertionError(f"expected {expected}, and none came")


def _failure(one: BrokenAttempt, final: bool, exception: BaseException | None) -> JobFailure:
    error: dict[str, Any] = one.error
    return JobFailure(
        job_id=UUID(one.job_id),
        handler=one.handler,
        attempt=one.attempt,
        final=final,
        type=str(error.get("type", "")),
        message=str(error.get("message", "")),
        traceback=str(error.get("traceback", "")),
        exception=exception,
    )
