"""The budget of full scans: their share of the time, and what only looks like a slow one."""

from __future__ import annotations

import pytest

from headway.engine.claiming import scan
from headway.engine.claiming.scan import ScanBudget


class Time:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(scan, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def test_scans_that_take_long_come_seldom(clock: Time) -> None:
    budget = ScanBudget()
    for _ in range(3):
        budget.spent(2.0)
    assert not budget.allows()
    assert budget.wait() == 40.0
    clock.now += 40
    assert budget.allows()


def test_one_that_was_slow_for_once_holds_up_nobody(clock: Time) -> None:
    """As one is that a handler kept from hearing its answer."""
    budget = ScanBudget()
    for _ in range(3):
        budget.spent(0.01)
    budget.spent(12.0)
    assert budget.wait() == pytest.approx(0.2)
    budget.spent(0.01)
    assert budget.wait() == pytest.approx(0.2)


def test_h5_two_slow_scans_in_a_row_hold_up_nobody(clock: Time) -> None:
    """Behind a pooler a scan is the only way to find work, and a busy machine is slow more than once."""
    budget = ScanBudget()
    for seconds in (0.01, 0.4, 0.4):
        budget.spent(seconds)
    assert budget.wait() == pytest.approx(0.2)
    budget.spent(0.4)
    assert budget.wait() == pytest.approx(8.0)


def test_what_a_scan_brings_about_is_part_of_it(clock: Time) -> None:
    budget = ScanBudget()
    for _ in range(3):
        budget.spent(0.5)
        budget.spent(1.0, more=True)
        budget.spent(0.5, more=True)
    assert budget.wait() == 40.0
