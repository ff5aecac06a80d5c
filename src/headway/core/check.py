"""Whether jobs that exist would run under the code of an app. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headway.core.definition import Definition
from headway.core.printable import printable

Problem = Literal["unknown task", "unknown step", "invalid input", "invalid state"]
_SAMPLES = 3
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A job or a schedule as it is stored: a handler and its input."""

    id: str
    """The id of a job, or the name of a schedule."""
    queue: str
    task: str
    step: str
    input: str
    carried: str | None = None


@dataclass(slots=True)
class CheckFinding:
    """Jobs, or schedules, that would not run under the code, and why."""

    problem: Problem
    of: Literal["job", "schedule"]
    task: str
    step: str
    details: str
    count: int = 0
    samples: list[str] = field(default_factory=list[str])
    """Some of them: ids of jobs, or names of schedules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The findings of `Headway.check`, and how much it tried."""

    findings: list[CheckFinding]
    jobs: int
    """How many jobs it tried."""
    schedules: int
    complete: bool
    """False if there are more jobs than it was to try."""

    @property
    def ok(self) -> bool:
        """Whether everything that was tried would run."""
        return not self.findings


class Checker:
    """Tries stored calls against definitions, and groups those that would fail."""

    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        self._definitions = definitions
        self._tasks = {definition.name for definition in definitions.values()}
        self._found: dict[tuple[str, ...], CheckFinding] = {}
        self.tried = {"job": 0, "schedule": 0}

    @property
    def findings(self) -> list[CheckFinding]:
        """Return the findings, the most frequent first."""
        return sorted(self._found.values(), key=lambda each: (-each.count, each.task, each.step))

    def look(self, of: Literal["job", "schedule"], call: StoredCall) -> None:
        """Try one stored call."""
        self.tried[of] += 1
        if (wrong := self._problem(call)) is None:
            return
        problem, details = wrong
        key = (of, problem, call.task, call.step, details)
        if key not in self._found:
            self._found[key] = CheckFinding(problem, of, call.task, call.step, details)
        finding = self._found[key]
        finding.count += 1
        if len(finding.samples) < _SAMPLES:
            finding.samples.append(call.id)

    def _problem(self, call: StoredCall) -> tuple[Problem, str] | None:
        handler = f"{call.task}/{call.step}" if call.step else call.task
        definition = self._definitions.get(handler)
        if definition is None:
            if call.task in self._tasks:
                known = sorted(d.step for d in self._definitions.values() if d.name == call.task)
                named = ", ".join(filter(None, known)) or "no steps: it is a task"
                return "unknown step", f"the code has {named}"
            return "unknown task", "the code has no such task, and none that was called so"
        try:
            definition.parameters.decode(call.input)
        except Exception as error:
            return "invalid input", _words(error)
        flow = definition.flow
        if flow is not None and flow.state is not None and call.carried is not None:
            try:
                flow.read_state(call.carried)
            except Exception as error:
                return "invalid state", _words(error)
        return None


def _words(error: Exception) -> str:
    return printable(str(error) or type(error).__name__)[:_LONGEST]
