"""The answers of a batch task's handler, and how each job ends."""

import asyncio
from typing import Any

import pytest

from headway import Batch, Fatal, Headway, Retry, Snooze
from headway.errors import JobFailed

ONCE = Retry(max_attempts=1)
AGAIN = Retry(max_attempts=3, backoff="constant", base=0, jitter=0)


async def test_each_job_gets_its_own_answer(hw: Headway) -> None:
    calls: list[list[str]] = []

    @hw.task(batch=Batch(6, wait=0), retry=AGAIN)
    async def answer(words: list[str]) -> list[str | Exception | None]:
        calls.append(words)
        answers: dict[str, str | Exception | None] = {
            "fine": "well",
            "nothing": None,
            "bad": ValueError("no good") if len(calls) == 1 else "good by now",
            "fatal": Fatal("never"),
            "later": Snooze("1h"),
        }
        return [answers[word] for word in words]

    words = ["fine", "nothing", "bad", "fatal", "later"]
    jobs = {word: await answer.enqueue(word) for word in words}
    report = await hw.run_until_idle()
    assert calls == [words, ["bad"]]
    assert report.settled == {"succeed": 3, "retry": 1, "fail": 1, "snooze": 1}
    assert await jobs["fine"].result() == "well"
    assert await jobs["nothing"].result() is None
    assert await jobs["bad"].result() == "good by now"
    assert [attempt.error["type"] for attempt in await jobs["bad"].attempts()] == ["ValueError"]
    with pytest.raises(JobFailed, match="never"):
        await jobs["fatal"].result()
    later = await jobs["later"].status()
    assert (later.state, later.attempt) == ("scheduled", 0)


async def test_what_gather_returns_is_an_answer(hw: Headway) -> None:
    async def root(number: float) -> float:
        if number < 0:
            raise ValueError("negative")
        return number**0.5

    @hw.task(batch=Batch(3, wait=0), retry=ONCE)
    async def roots(numbers: list[float]) -> list[float | BaseException]:
        return await asyncio.gather(*map(root, numbers), return_exceptions=True)

    good, bad = [await roots.enqueue(number) for number in (9.0, -1.0)]
    await hw.run_until_idle()
    assert await good.result() == 3.0
    error = (await bad.status()).error
    assert error is not None
    assert error["type"] == "ValueError"
    assert "in root" in error["traceback"], "its own traceback"


async def test_none_is_a_success_of_all(hw: Headway) -> None:
    @hw.task(batch=Batch(3, wait=0))
    async def swallow(numbers: list[int]) -> None: ...

    jobs = [await swallow.enqueue(n) for n in range(3)]
    report = await hw.run_until_idle()
    assert report.settled == {"succeed": 3}
    assert [await job.result() for job in jobs] == [None] * 3


async def test_what_it_raises_is_a_failure_of_all(hw: Headway) -> None:
    calls = 0

    @hw.task(batch=Batch(3, wait=0), retry=AGAIN)
    async def flaky(numbers: list[int]) -> list[int]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("the server is down")
        return numbers

    jobs = [await flaky.enqueue(n) for n in range(3)]
    report = await hw.run_until_idle()
    assert report.settled == {"retry": 3, "succeed": 3}
    assert calls == 2, "they were tried again together"
    for n, job in enumerate(jobs):
        assert await job.result() == n
        assert [a.error["message"] for a in await job.attempts()] == ["the server is down"]


async def test_the_last_attempt_of_a_job_is_made_alone(hw: Headway) -> None:
    """One that makes every call fail fails for good, and takes nobody with it."""
    sizes: list[int] = []

    @hw.task(batch=Batch(10, wait=0), retry=AGAIN)
    async def picky(numbers: list[int]) -> list[int]:
        sizes.append(len(numbers))
        if 3 in numbers:
            raise ValueError("three")
        return numbers

    jobs = [await picky.enqueue(n) for n in range(5)]
    report = await hw.run_until_idle()
    assert sizes == [5, 5, 1, 1, 1, 1, 1]
    assert report.settled == {"retry": 10, "succeed": 4, "fail": 1}
    assert [(await job.status()).state for job in jobs].index("failed") == 3


async def test_a_first_attempt_that_is_the_last_is_made_with_the_others(hw: Headway) -> None:
    @hw.task(batch=Batch(3, wait=0), retry=ONCE)
    async def count(numbers: list[int]) -> list[int]:
        return [len(numbers)] * len(numbers)

    jobs = [await count.enqueue(n) for n in range(3)]
    await hw.run_until_idle()
    assert [await job.result() for job in jobs] == [3, 3, 3]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([1, 2], "called with 3 jobs and returned 2 answers"),
        ([1, 2, 3, 4], "called with 3 jobs and returned 4 answers"),
        ("abc", "returned a str"),
        ({1: 1, 2: 2, 3: 3}, "returned a dict"),
    ],
    ids=["too few", "too many", "text", "a dict"],
)
async def test_a_wrong_answer_fails_all_and_says_what_is_wrong(
    hw: Headway, answer: Any, said: str
) -> None:
    calls = 0

    @hw.task(batch=Batch(3, wait=0), retry=AGAIN)
    async def wrong(numbers: list[int]) -> list[int]:
        nonlocal calls
        calls += 1
        return answer

    jobs = [await wrong.enqueue(n) for n in range(3)]
    report = await hw.run_until_idle()
    assert report.settled == {"fail": 3}
    assert calls == 1, "it would answer the same again"
    for job in jobs:
        error = (await job.status()).error
        assert error is not None
        assert error["type"] == "InvalidResult"
        assert said in error["message"]
        assert "an answer for each" in error["message"]


async def test_a_result_that_cannot_be_stored_fails_that_job_alone(hw: Headway) -> None:
    @hw.task(batch=Batch(2, wait=0), retry=AGAIN)
    async def raw(numbers: list[int]) -> list[Any]:
        return [object() if number else "fine" for number in numbers]

    good, bad = [await raw.enqueue(n) for n in range(2)]
    report = await hw.run_until_idle()
    assert report.settled == {"succeed": 1, "fail": 1}
    assert await good.result() == "fine"
    with pytest.raises(JobFailed, match="InvalidResult"):
        await bad.result()


async def test_an_input_that_does_not_fit_fails_that_job_alone(hw: Headway, db) -> None:
    calls: list[list[int]] = []

    @hw.task(batch=Batch(3, wait=0))
    async def take(numbers: list[int]) -> None:
        calls.append(numbers)

    await take.enqueue(1)
    (bad,) = db.execute("""select enqueue('take', '{"numbers": "two"}')""").fetchone()
    await take.enqueue(3)
    report = await hw.run_until_idle()
    assert report.settled == {"succeed": 2, "fail": 1}
    assert calls == [[1, 3]]
    with pytest.raises(JobFailed, match="InvalidInput"):
        await hw.job(bad).result()
