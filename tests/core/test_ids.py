"""Ids: UUIDv7, in order within a process."""

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import RFC_4122

import pytest

from headway.core import ids
from headway.core.clock import unix_milliseconds
from headway.core.ids import new_id, new_nonce


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A wall clock that shows what the test puts into its only cell."""
    cell = [unix_milliseconds() + 1_000_000]
    monkeypatch.setattr(ids, "_last", 0)
    monkeypatch.setattr(ids, "unix_milliseconds", lambda: cell[0])
    return cell


def test_an_id_is_a_uuid_of_version_7_with_the_time_in_front() -> None:
    before = unix_milliseconds()
    made = new_id()
    assert made.version == 7
    assert made.variant == RFC_4122
    # Ids of this process may run ahead of the clock by the ticks that were used up.
    assert before <= made.int >> 80 <= unix_milliseconds() + 60_000


def test_ids_grow_within_one_thread() -> None:
    made = [new_id() for _ in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_grow_and_never_repeat_across_threads() -> None:
    together = threading.Barrier(8)

    def make() -> list[int]:
        together.wait()
        return [new_id().int >> 64 for _ in range(5_000)]  # the time and the counter, no chance

    with ThreadPoolExecutor(8) as pool:
        runs = [run.result() for run in [pool.submit(make) for _ in range(8)]]
    for run in runs:
        assert run == sorted(run)
    assert len({tick for run in runs for tick in run}) == 40_000


def test_ids_of_one_millisecond_are_counted_and_run_over_into_the_next(clock: list[int]) -> None:
    made = [new_id() for _ in range(10_000)]
    assert made == sorted(made)
    assert made[0].int >> 80 == clock[0]
    assert made[4_095].int >> 80 == clock[0]
    assert made[4_096].int >> 80 == clock[0] + 1
    assert all(one.version == 7 and one.variant == RFC_4122 for one in made)


def test_a_clock_that_steps_back_does_not_take_the_ids_with_it(clock: list[int]) -> None:
    before = new_id()
    clock[0] -= 3_600_000
    after = [new_id() for _ in range(100)]
    assert [before, *after] == sorted([before, *after])
    clock[0] += 7_200_000
    assert new_id().int >> 80 == clock[0], "the clock is followed again once it has caught up"


def test_nonces_differ() -> None:
    assert len({new_nonce() for _ in range(1_000)}) == 1_000
