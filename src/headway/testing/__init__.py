"""Tests of your own code: the pytest fixtures `headway` and `headway_inline`, and their classes."""

from __future__ import annotations

from headway.core.info import EnqueuedJob
from headway.testing.failures import ExpectedFailure, JobFailure, JobsFailed
from headway.testing.fixture import HeadwayFixture
from headway.testing.inline import InlineFixture

__all__ = [
    "EnqueuedJob",
    "ExpectedFailure",
    "HeadwayFixture",
    "InlineFixture",
    "JobFailure",
    "JobsFailed",
]
