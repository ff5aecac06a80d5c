"""The same for consumers without an event loop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import islice

import pytest

from headway import Fatal, Headway, PulledJob, Snooze
from tests.sql.hand import Hand
from tests.support import DEADLINE


@pytest.fixture(params=[True, False], ids=["listening", "polling"])
def app(dsn: str, schema: str, request: pytest.FixtureRequest) -> Iterator[Headway]:
    with Headway(dsn, schema=schema, notify=request.param) as app:
        yield app


def _pulled(hw: Headway, number: int, **options: int) -> list[PulledJob]:
    with closing(hw.pull_sync("ext", **options)) as pulled:
        return list(islice(pulled, number))


def test_jobs_are_pulled_and_settled_in_a_thread(app: Headway, hand: Hand) -> None:
    for n in range(5):
        hand.enqueue("resize", {"n": n}, queue="ext", max_attempts=2)
    done, again, released, snoozed, last = _pulled(app, 5, count=2)
    assert done.input == {"n": 0}
    assert done.complete_sync([1])
    assert again.extend_sync("1h")
    assert again.fail_sync("why", delay="1h")
    assert released.release_sync()
    assert snoozed.snooze_sync("1h")
    assert last.fail_sync("why", again=False)
    assert hand.ended(done.id)["result"] == [1]
    assert [hand.state(job.id) for job in (again, released, snoozed, last)] == [
        "scheduled",
        "ready",
        "scheduled",
        "failed",
    ]


def test_a_consumer_that_waits_is_given_what_comes(app: Headway, hand: Hand) -> None:
    seen: list[PulledJob] = []
    came = threading.Event()

    def consume() -> None:
        with closing(app.pull_sync("ext")) as pulled:
            for job in pulled:
                with job:
                    seen.append(job)
                came.set()
                if len(seen) == 3:
                    return

    consumer = threading.Thread(target=consume)
    consumer.start()
    made = []
    for _ in range(3):
        made.append(hand.enqueue("resize", queue="ext"))
        assert came.wait(DEADLINE)
        came.clear()
    consumer.join(DEADLINE)
    assert [job.id for job in seen] == made
    assert [hand.state(job) for job in made] == ["succeeded"] * 3


def test_a_loop_that_is_left_gives_back_what_it_did_not_hand_out(app: Headway, hand: Hand) -> None:
    for _ in range(4):
        hand.enqueue("resize", queue="ext")
    for job in app.pull_sync("ext", count=4):
        assert job.complete_sync()
        break
    assert hand.value("select count(*) from job where state = 'r' and attempt = 0") == 3


def test_a_block_settles_its_job(app: Headway, hand: Hand) -> None:
    for _ in range(5):
        hand.enqueue("resize", queue="ext")
    done, failed, fatal, snoozed, stopped = _pulled(app, 5, count=5)
    with done:
        pass
    with failed:
        raise ValueError("no such image")
    with fatal:
        raise Fatal("never")
    with snoozed:
        raise Snooze("1h")
    with pytest.raises(KeyboardInterrupt), stopped:
        raise KeyboardInterrupt
    assert [hand.state(job.id) for job in (done, failed, fatal, snoozed, stopped)] == [
        "succeeded",
        "scheduled",
        "failed",
        "scheduled",
        "ready",
    ]
