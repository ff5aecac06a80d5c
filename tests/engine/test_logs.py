"""The log of a worker: structured records that carry the job."""

import asyncio
import logging

import pytest

from headway import Fatal, Headway, Retry, Snooze
from headway.engine import logs
from headway.errors import JobCancelled
from tests.support import DEADLINE


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture):
    """The worker's records about one job."""
    caplog.set_level(logging.INFO, "headway.worker")

    def of(job) -> list[logging.LogRecord]:
        return [r for r in caplog.records if getattr(r, "job_id", None) == str(job.id)]

    return of


def about(record: logging.LogRecord) -> tuple[str, int, str]:
    return record.task, record.attempt, record.queue


async def test_a_failed_attempt_and_a_failed_job_are_logged_with_their_job(
    hw: Headway, records
) -> None:
    @hw.task(queue="mail", retry=Retry(2, backoff="constant", base=0, jitter=0))
    async def broken() -> None:
        raise ValueError("no luck")

    job = await broken.enqueue()
    await hw.run_until_idle()
    first, last = records(job)
    assert (first.levelname, last.levelname) == ("WARNING", "ERROR")
    assert [about(r) for r in (first, last)] == [("broken", 1, "mail"), ("broken", 2, "mail")]
    assert "attempt 1 of 2 failed" in first.getMessage()
    for record in (first, last):
        assert "ValueError: no luck" in record.getMessage()
        assert str(job.id) in record.getMessage()


async def test_a_success_is_not_worth_a_line(hw: Headway, records) -> None:
    @hw.task
    async def good() -> None: ...

    job = await good.enqueue()
    await hw.run_until_idle()
    assert records(job) == []


async def test_other_verdicts_are_logged_too(hw: Headway, start, records) -> None:
    inside = asyncio.Event()

    @hw.task
    async def task(how: str) -> None:
        if how == "snooze":
            raise Snooze("1h")
        if how == "fatal":
            raise Fatal("never")
        inside.set()
        await asyncio.sleep(3600)

    start()
    jobs = {how: await task.enqueue(how) for how in ("snooze", "fatal", "cancel")}
    await asyncio.wait_for(inside.wait(), DEADLINE)
    await jobs["cancel"].cancel()
    with pytest.raises(JobCancelled):
        await jobs["cancel"].result(timeout="60s")
    levels = {how: [r.levelname for r in records(job)] for how, job in jobs.items()}
    assert levels == {"snooze": ["INFO"], "fatal": ["ERROR"], "cancel": ["INFO"]}


async def test_a_message_with_percent_signs_is_logged_as_it_is(hw: Headway, records) -> None:
    @hw.task(retry=Retry(1))
    async def task() -> None:
        raise ValueError("100 %s of %d")

    job = await task.enqueue()
    await hw.run_until_idle()
    assert "100 %s of %d" in records(job)[0].getMessage()


async def test_a_worker_says_what_it_serves(hw: Headway, caplog) -> None:
    @hw.task(queue="mail")
    async def task() -> None: ...

    with caplog.at_level(logging.INFO, "headway.worker"):
        await hw.run_until_idle(concurrency=7)
    assert "serving mail with 7 slots" in [r.getMessage() for r in caplog.records]


def test_a_child_process_is_told_how_its_worker_logs(
    hw: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [logging.NullHandler()])
    monkeypatch.setattr(root, "level", root.level)
    assert hw._session.prepare_child().logging is None, "the app logs in a way of its own"
    formats: tuple[logs.Format, ...] = ("text", "json")
    for format_ in formats:
        logs.set_up("debug", format_)
        assert hw._session.prepare_child().logging == logs.LogSetUp("DEBUG", format_)
