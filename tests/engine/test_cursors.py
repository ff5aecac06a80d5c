"""The invariants of the cursors, one test each (engine/claiming/cursors.py)."""

from __future__ import annotations

from headway.engine.claiming.cursors import Cursors

LINE = ("mail", 0, None)
OTHER = ("mail", 5, None)


def _scanned(cursors: Cursors, *found: tuple[str, int, str | None], newest: int = 100) -> None:
    cursors.scanned({*found}, newest, active={LINE, OTHER})


def test_c1_an_unread_line_is_read_from_its_start_and_others_after_their_cursor_or_the_floor() -> (
    None
):
    cursors = Cursors()
    _scanned(cursors, LINE)
    assert cursors.after(LINE) == 0
    assert cursors.after(OTHER) == 100
    cursors.claimed(OTHER, 120, from_start=False)
    assert cursors.after(OTHER) == 120


def test_c2_a_claim_never_moves_a_cursor_back_unless_it_read_from_the_start() -> None:
    cursors = Cursors()
    cursors.claimed(LINE, 120, from_start=False)
    cursors.claimed(LINE, 90, from_start=False)
    assert cursors.after(LINE) == 120
    cursors.claimed(LINE, 90, from_start=True)
    assert cursors.after(LINE) == 90


def test_c3_a_line_is_unread_until_a_claim_gets_a_job_of_it_or_reads_its_end() -> None:
    cursors = Cursors()
    _scanned(cursors, LINE, OTHER)
    assert cursors.unread_of({LINE, OTHER}) == {LINE, OTHER}
    cursors.claimed(LINE, 7, from_start=True)
    assert cursors.unread_of({LINE, OTHER}) == {OTHER}
    cursors.reached_end(OTHER)
    assert cursors.unread_of({LINE, OTHER}) == set()
    assert (cursors.after(LINE), cursors.after(OTHER)) == (7, 100)


def test_c4_a_late_seq_moves_the_cursor_back_only_before_the_next_claim() -> None:
    cursors = Cursors()
    cursors.claimed(LINE, 50, from_start=False)
    cursors.note_late(LINE, 40)
    cursors.note_late(LINE, 45)
    cursors.claimed(LINE, 60, from_start=False)  # the answer to the claim that was under way
    assert cursors.after(LINE) == 60
    cursors.step_back()
    assert cursors.after(LINE) == 39


def test_c5_a_scan_sets_the_floor_and_keeps_the_cursors_of_active_lines_only() -> None:
    cursors = Cursors()
    cursors.claimed(LINE, 150, from_start=False)
    cursors.claimed(OTHER, 150, from_start=False)
    cursors.scanned(set(), 200, active={LINE})
    assert (cursors.after(LINE), cursors.after(OTHER)) == (150, 200)


def test_a_line_that_is_forgotten_starts_from_the_floor() -> None:
    cursors = Cursors()
    _scanned(cursors, LINE)
    cursors.note_late(OTHER, 3)
    cursors.forget_all()
    cursors.step_back()
    assert (cursors.after(LINE), cursors.after(OTHER)) == (100, 100)
