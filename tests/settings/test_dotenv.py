"""The lines of a .env file."""

from __future__ import annotations

import pytest

from headway.settings.dotenv import Entry, parse


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("  A = b  ", "b"),
        ("export A=b", "b"),
        ("export\tA = b", "b"),
        ("A=", ""),
        ("A= # nothing", ""),
        ("A=b # a comment", "b"),
        ("A=b#c", "b#c"),
        ("A='b # c' # d", "b # c"),
        ('A="b # c"', "b # c"),
        ("A='b\\n${X}'", "b\\n${X}"),
        (r'A="b\n\"c\" \\ \$"', 'b\n"c" \\ $'),
        ('A="b\nc"', "b\nc"),
        ("A=it's", "it's"),
        ("A=b=c", "b=c"),
        ("A=${X}/${Y:-z}/${Z}/$X", "x/z//$X"),
        ('A="${X}"', "x"),
        ("\ufeffA=b", "b"),
        ("A=a\nA=b", "b"),
        ("A=b\r\nB=c\r\n", "b"),
    ],
)
def test_a_line_is_read_as_shells_and_others_do(line: str, value: str) -> None:
    assert parse(line, {"X": "x"})["A"].value == value


@pytest.mark.parametrize("text", ["", "\n\n", "# A=b", "just words", "=b", "A", "export A", "1A=b"])
def test_what_sets_nothing_is_left_out(text: str) -> None:
    assert parse(text, {}) == {}


@pytest.mark.parametrize("text", ["A='b", 'A="b', "A='b'c", 'A="b" c'])
def test_a_line_that_cannot_be_read_is_known_by_its_name_and_the_next_is_read(text: str) -> None:
    assert parse(f"{text}\nB=c", {}) == {"A": Entry(None, 1), "B": Entry("c", 2)}


def test_lines_are_counted_through_values_that_have_several() -> None:
    text = "KEY='one\ntwo\nthree'\n# comment\nB=c"
    assert parse(text, {}) == {"KEY": Entry("one\ntwo\nthree", 1), "B": Entry("c", 5)}


def test_a_reference_finds_the_environment_before_the_file() -> None:
    read = parse("X=file\nY=only\nA=${X}${Y}", {"X": "real"})
    assert read["A"].value == "realonly"
