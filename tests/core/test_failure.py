"""Error envelopes: what is stored about a failure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core import codec, failure
from headway.core.failure import TIMED_OUT, envelope, envelope_of


class OddText(Exception):
    def __str__(self) -> str:
        raise LookupError("no words")


class ViolentText(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Quarrelsome(Exception):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compares with nobody")

    __hash__ = Exception.__hash__


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    """The error as it looks after it was really raised."""
    try:
        raise error from cause
    except BaseException as caught:
        return caught


def test_an_envelope_has_type_message_traceback_and_chain() -> None:
    stored = envelope_of(raised(KeyError("price")))
    assert stored["type"] == "KeyError"
    assert stored["message"] == "'price'"
    assert "in raised" in stored["traceback"]
    assert stored["chain"] == []


def test_a_type_outside_builtins_is_stored_with_its_module() -> None:
    assert envelope_of(OddText())["type"] == f"{__name__}.OddText"


def test_a_failure_without_an_exception_has_a_name_and_words() -> None:
    assert envelope(TIMED_OUT, "after 5s") == {"type": "TimedOut", "message": "after 5s"}


def test_explicit_causes_are_chained_oldest_last() -> None:
    root = raised(ValueError("root"))
    middle = raised(KeyError("middle"), root)
    stored = envelope_of(raised(RuntimeError("top"), middle))
    assert [link["type"] for link in stored["chain"]] == ["KeyError", "ValueError"]
    assert stored["chain"][1]["message"] == "root"
    assert "The above exception was the direct cause" in stored["traceback"]


def test_implicit_contexts_are_chained_unless_they_are_suppressed() -> None:
    def fail(suppress: bool) -> BaseException:
        try:
            try:
                raise ValueError("inner")
            except ValueError:
                if suppress:
                    raise RuntimeError("outer") from None
                raise RuntimeError("outer")  # noqa: B904
        except RuntimeError as error:
            return error

    assert [link["message"] for link in envelope_of(fail(suppress=False))["chain"]] == ["inner"]
    assert envelope_of(fail(suppress=True))["chain"] == []


def test_a_chain_that_bites_its_tail_ends() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__context__, two.__context__ = two, one
    assert 1 <= len(envelope_of(one)["chain"]) <= 2


def test_a_long_chain_is_cut() -> None:
    error: BaseException = ValueError(0)
    for number in range(1, 50):
        error = raised(ValueError(number), error)
    chain = envelope_of(error)["chain"]
    assert [link["message"] for link in chain] == [str(n) for n in range(48, 38, -1)]


def test_the_members_of_an_exception_group_are_in_its_traceback() -> None:
    stored = envelope_of(raised(ExceptionGroup("two of them", [ValueError("a"), KeyError("b")])))
    assert "ValueError: a" in stored["traceback"]
    assert "KeyError: 'b'" in stored["traceback"]


@pytest.mark.parametrize(
    ("error", "why"), [(OddText(), "LookupError"), (ViolentText(), "SystemExit")]
)
def test_an_exception_whose_str_raises_is_still_a_failure(error, why: str) -> None:
    stored = envelope_of(raised(error))
    assert stored["message"] == f"<no message: its __str__ raised {why}>"
    assert "in raised" in stored["traceback"]


def test_an_exception_that_cannot_be_compared_is_still_a_failure() -> None:
    error = raised(Quarrelsome("top"), raised(Quarrelsome("middle"), Quarrelsome("root")))
    assert [link["message"] for link in envelope_of(error)["chain"]] == ["middle", "root"]


def test_a_long_message_keeps_both_of_its_ends() -> None:
    message = envelope_of(ValueError("begin" + "x" * 100_000 + "end"))["message"]
    assert message.startswith("begin")
    assert message.endswith("end")
    assert "characters left out" in message
    assert len(message) < 9_000


def test_a_long_traceback_keeps_both_of_its_ends() -> None:
    traceback = envelope_of(raised(ValueError("begin" + "x" * 100_000 + "end")))["traceback"]
    assert traceback.startswith("Traceback (most recent call last)")
    assert traceback.endswith("end\n")
    assert len(traceback) < 33_000


@given(st.text(st.characters(), max_size=200))
def test_any_text_at_all_can_be_stored(text: str) -> None:
    error = raised(ValueError(text), RuntimeError(text))
    for stored in (envelope_of(error), envelope("Odd", text)):
        codec.encode(stored)  # refuses NUL and lone surrogates


def test_a_nul_is_shown_rather_than_dropped() -> None:
    assert envelope("Odd", "a\0b")["message"] == "a\\0b"


@pytest.mark.parametrize("words", ["\ud800", "a\0b", "x" * 100_000])
def test_an_exception_that_some_logs_refuse_is_logged_as_its_stored_traceback(words: str) -> None:
    error = ValueError(words)
    kind, shown, _ = failure.exc_info(failure.envelope_of(error), error) or (None, None, None)
    assert kind is failure.StoredTraceback
    str(shown).encode()


def test_other_exceptions_are_logged_as_they_are() -> None:
    error = ValueError("plain")
    assert failure.exc_info(failure.envelope_of(error), error) == (ValueError, error, None)
