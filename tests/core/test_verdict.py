"""From the outcome of an attempt to the verdict about the job."""

import asyncio
from datetime import timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway import Fatal, Retry, Snooze
from headway.core import codec, failure
from headway.core.flow import Advance
from headway.core.verdict import (
    Broke,
    Kind,
    Moved,
    Outcome,
    Raised,
    Returned,
    Stopped,
    Verdict,
    decide,
)
from headway.errors import InvalidInput, PayloadTooLarge


class Wordless(Snooze):
    """A subclass that forgot to say how long."""

    def __init__(self) -> None:
        Exception.__init__(self)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def violent(attempt: int) -> float:
    raise SystemExit(attempt)


MOVE = Advance("next", b"{}", 60.0, "default", 0, 5, None, None, False)

errors = st.one_of(
    st.sampled_from([ValueError, KeyError, OSError, RuntimeError, Fatal, InvalidInput]).flatmap(
        lambda kind: st.text(max_size=30).map(kind)
    ),
    st.sampled_from(
        [
            SystemExit,
            KeyboardInterrupt,
            asyncio.CancelledError,
            GeneratorExit,
            Unspeakable,
            Wordless,
        ]
    ).map(lambda kind: kind()),
    st.one_of(
        st.text(max_size=10), st.floats(), st.integers(), st.timedeltas(), st.none(), st.binary()
    ).map(Snooze),
    st.text(max_size=5).map(lambda text: ExceptionGroup("several", [ValueError(text)])),
)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Returned, st.binary(), st.none() | st.binary()),
    st.builds(Moved, st.just(MOVE), st.none() | st.binary()),
    errors.map(Raised),
    st.builds(Broke, st.just(failure.envelope(failure.TIMED_OUT, "too long")), again=st.booleans()),
    st.sampled_from([Stopped("cancel"), Stopped("shutdown")]),
)
policies = st.builds(
    Retry,
    max_attempts=st.integers(1, 32_000),
    backoff=st.sampled_from(
        ["exponential", "linear", "constant", violent, lambda n: None, lambda n: 10**n]
    ),
    jitter=st.floats(0, 1),
    on=st.sampled_from([(Exception,), (BaseException,), (OSError,), ()]),
    never=st.sampled_from([(), (ValueError,), (BaseException,)]),
)


@given(
    outcomes, policies, st.integers(1, 40), st.integers(1, 40), st.floats(0, 1, exclude_max=True)
)
def test_there_is_a_verdict_for_every_outcome_and_it_can_be_stored(
    outcome: Outcome, policy: Retry, attempt: int, max_attempts: int, chance: float
) -> None:
    verdict = decide(outcome, policy, attempt, max_attempts, chance)
    assert verdict.kind in get_args(Kind)
    assert 0 <= verdict.delay < 100 * 366 * 86_400
    assert (verdict.result is not None) == (verdict.kind == "succeed")
    assert (verdict.advance is not None) == (verdict.kind == "advance")
    if verdict.kind not in ("succeed", "advance"):
        assert verdict.carried is None, "a flow's state is kept by what succeeds"
        assert verdict.children is None, "so are the jobs that it made"
    assert (verdict.error is not None) == (verdict.kind in ("fail", "retry", "cancel"))
    if verdict.error is not None:
        assert verdict.error["type"]
        codec.encode(verdict.error)
    if verdict.kind == "retry":
        assert attempt < max_attempts, "the last attempt is the last"


def after(error: BaseException, policy: Retry | None = None, attempt: int = 1) -> Verdict:
    policy = policy or Retry(max_attempts=3, jitter=0)
    return decide(Raised(error), policy, attempt, policy.max_attempts, 0.0)


def test_a_return_succeeds_with_its_result() -> None:
    assert decide(Returned(b"1"), Retry(), 1, 5, 0.0) == Verdict("succeed", result=b"1")


def test_a_step_that_says_where_to_go_advances_with_all_it_has() -> None:
    children = [object()]
    last = decide(Moved(MOVE, b"state", children), Retry(), 5, 5, 0.0)
    assert last == Verdict("advance", advance=MOVE, carried=b"state", children=children)
    assert last.delay == 0.0, "how long the next step waits is said by the move"


def test_what_a_success_leaves_behind_goes_with_it() -> None:
    children = [object()]
    assert decide(Returned(b"1", b"state", children), Retry(), 1, 5, 0.0) == Verdict(
        "succeed", result=b"1", carried=b"state", children=children
    )


def test_the_size_of_a_verdict_counts_everything_that_it_stores() -> None:
    class Child:
        input = b"1234"

    assert Verdict("succeed", result=b"12", carried=b"345").size == 5
    assert Verdict("advance", advance=MOVE, children=[Child(), Child()]).size == 2 + 8
    assert Verdict("retry").size == 0


def test_an_error_is_tried_again_until_the_last_attempt_fails() -> None:
    verdicts = [after(ValueError("no"), attempt=attempt) for attempt in (1, 2, 3)]
    assert [(v.kind, v.delay) for v in verdicts] == [("retry", 1.0), ("retry", 2.0), ("fail", 0.0)]
    assert all(v.error and v.error["message"] == "no" for v in verdicts)


def test_fatal_fails_at_once_even_where_the_policy_would_try_again() -> None:
    class Mine(Fatal):
        pass

    assert after(Mine("no such customer"), Retry(on=(BaseException,))).kind == "fail"


def test_an_error_outside_of_on_or_inside_of_never_fails_at_once() -> None:
    policy = Retry(on=(OSError,), never=(PermissionError,))
    assert after(ConnectionError(), policy).kind == "retry"
    assert after(ValueError(), policy).kind == "fail"
    assert after(PermissionError(), policy).kind == "fail"


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()])
def test_what_is_no_exception_is_tried_again_only_if_the_policy_names_it(error) -> None:
    assert after(error).kind == "fail"
    assert after(error, Retry(on=(BaseException,))).kind == "retry"


@pytest.mark.parametrize("kind", [InvalidInput, PayloadTooLarge])
def test_bad_input_that_a_handler_made_for_another_job_is_an_error_like_others(kind) -> None:
    verdict = after(kind("expected int"))
    assert verdict.kind == "retry"
    assert verdict.error is not None
    assert verdict.error["type"] == f"headway.errors.{kind.__name__}"


@pytest.mark.parametrize("delay", ["5m", 300, timedelta(minutes=5)])
def test_a_snooze_waits_as_long_as_it_says_even_on_the_last_attempt(delay) -> None:
    assert after(Snooze(delay), attempt=3) == Verdict("snooze", delay=300.0)


@pytest.mark.parametrize("snooze", [Snooze("whenever"), Snooze(-1), Wordless()])
def test_a_snooze_that_names_no_duration_fails_with_the_reason(snooze) -> None:
    verdict = after(snooze)
    assert verdict.kind == "fail"
    assert verdict.error is not None


def test_a_backoff_function_that_raises_fails_the_job_with_both_errors() -> None:
    verdict = after(ValueError("the handler's"), Retry(backoff=violent))
    assert verdict.kind == "fail"
    assert verdict.error is not None
    assert verdict.error["type"] == "ValueError"
    assert "the handler's" in verdict.error["message"]
    assert "its backoff function raised SystemExit: 1" in verdict.error["message"]


@pytest.mark.parametrize(("again", "kind"), [(True, "retry"), (False, "fail")])
def test_an_attempt_that_broke_is_tried_again_if_that_could_help(again: bool, kind: str) -> None:
    error = failure.envelope(failure.TIMED_OUT, "after 5 s")
    verdict = decide(Broke(error, again), Retry(jitter=0), 1, 5, 0.0)
    assert (verdict.kind, verdict.error, verdict.crashed) == (kind, error, False)


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("attempt", [1, 5])
def test_g6_a_job_whose_process_died_has_crashes_counted_and_not_attempts(
    attempt: int, again: bool
) -> None:
    died = Broke(failure.envelope(failure.PROCESS_DIED, "by SIGKILL"), again)
    policy = Retry(5, base="1s", jitter=0, max_crashes=3)
    verdicts = [decide(died, policy, attempt, 5, 0.0, crashes) for crashes in range(4)]
    assert [(v.kind, v.crashed, v.delay) for v in verdicts] == [
        ("retry", True, 1.0),
        ("retry", True, 2.0),
        ("fail", False, 0.0),
        ("fail", False, 0.0),
    ]
    assert all(v.error == died.error for v in verdicts)


def test_g6_a_crash_whose_back_off_cannot_be_worked_out_fails_the_job() -> None:
    died = Broke(failure.envelope(failure.PROCESS_DIED, "by SIGKILL"), True)
    verdict = decide(died, Retry(backoff=violent), 1, 5, 0.0)
    assert (verdict.kind, verdict.crashed) == ("fail", False)


def test_g6_another_error_of_a_suspect_counts_as_an_attempt() -> None:
    verdict = decide(Raised(ValueError()), Retry(jitter=0, max_crashes=1), 1, 5, 0.0, 7)
    assert (verdict.kind, verdict.crashed) == ("retry", False)


def test_g11_a_stop_gives_the_job_back_and_a_cancellation_ends_it() -> None:
    assert decide(Stopped("shutdown"), Retry(), 5, 5, 0.0) == Verdict("release")
    cancelled = decide(Stopped("cancel"), Retry(), 1, 5, 0.0)
    assert (cancelled.kind, (cancelled.error or {})["type"]) == ("cancel", "Cancelled")
