"""The options of tasks, flows and steps: what is refused, and what is made of the rest."""

from typing import Any

import pytest

from headway import Failure, Headway, Key, Retention, Retry, Unique
from headway.errors import ConfigError


@pytest.fixture
def app() -> Headway:
    """Never opened."""
    return Headway("postgresql://nowhere", retention=Retention(succeeded="2d", failed="3d"))


async def work() -> None: ...


def plain() -> None: ...


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"retires": 3}, "a task has no option 'retires'; did you mean 'retry'?"),
        ({"timout": 3}, "a task has no option 'timout'; did you mean 'timeout'?"),
        ({"concurency_key": "a"}, "did you mean 'concurrency_key'?"),
        (
            {"zzz": 1},
            "a task has no option 'zzz'; it takes aliases, batch, concurrency_key, dead_letter,",
        ),
    ],
)
def test_a_task_s_unknown_option_is_refused_with_the_one_that_was_meant(
    app: Headway, options: Any, why: str
) -> None:
    with pytest.raises(ConfigError, match=why.replace("?", r"\?")):
        app.task(**options)(work)


def test_the_options_of_a_flow_and_of_a_step_are_told_apart(app: Headway) -> None:
    with pytest.raises(ConfigError, match="flow f has no option 'slots'"):
        app.flow("f", slots=1)  # pyright: ignore[reportCallIssue]
    flow = app.flow("g")
    with pytest.raises(ConfigError, match="a step of g has no option 'ttl'"):
        flow.step(ttl="1h")(work)  # pyright: ignore[reportCallIssue]
    with pytest.raises(ConfigError, match=r"a step of g has no option 'uniqe'"):
        flow.step(uniqe="a")(work)  # pyright: ignore[reportCallIssue]


def test_a_call_s_unknown_option_is_refused(app: Headway) -> None:
    task = app.task(work)
    with pytest.raises(ConfigError, match=r"using\(\) has no option 'delays'; it takes delay, at"):
        task.using(delays="1h")  # pyright: ignore[reportCallIssue]


def test_a_task_without_options_has_those_of_the_app(app: Headway) -> None:
    made = app.task(work).definition
    assert (made.handler, made.queue, made.priority, made.retry) == ("work", "default", 0, Retry())
    assert (made.executor, made.slots, made.transaction) == ("async", None, False)
    assert (made.key, made.unique, made.timeout, made.ttl, made.delay) == (None,) * 5
    assert (made.dead_letter, made.on_failure) == (None, None)
    assert made.keep == app.retention


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        ("1h", Retention(succeeded="1h", failed="3d")),
        ("none", Retention(succeeded="none", failed="3d")),
        ("forever", Retention(succeeded="forever", failed="3d")),
        (None, Retention(succeeded="2d", failed="3d")),
        (Retention(), Retention(succeeded="2d", failed="3d")),
        (Retention(succeeded="1d", failed="none"), Retention(succeeded="1d", failed="none")),
        (Retention(failed="1d"), Retention(succeeded="2d", failed="1d")),
        (Retention(succeeded="1d", failed=None), Retention(succeeded="1d", failed="3d")),
    ],
    ids=str,
)
def test_keep_is_about_successes_unless_it_says_both(app: Headway, keep: Any, expected) -> None:
    assert app.task(keep=keep)(work).definition.keep == expected
    flow = app.flow("f", keep=keep)
    assert flow.step(work).definition.keep == expected


def test_a_keep_that_is_no_duration_is_refused(app: Headway) -> None:
    with pytest.raises(ConfigError, match=r"keep 'long' is not a duration; .*'forever' .*'none'"):
        app.task(keep="long")(work)
    with pytest.raises(ConfigError):
        app.flow("f", keep="long")


def test_on_failure_is_a_task_a_flow_or_the_name_of_one(app: Headway) -> None:
    @app.task
    async def alert(failure: Failure) -> None: ...

    flow = app.flow("mourn")
    made = [
        app.task(name=f"t{n}", on_failure=given)(work).definition.on_failure
        for n, given in enumerate((alert, flow, "elsewhere"))
    ]
    assert made == ["alert", "mourn", "elsewhere"]


def test_a_task_is_not_called_for_its_own_failures(app: Headway) -> None:
    with pytest.raises(ConfigError, match="work cannot take its own failures"):
        app.task(on_failure="work")(work)


@pytest.mark.parametrize("option", ["on_failure", "dead_letter"])
def test_a_name_that_cannot_be_one_is_refused(app: Headway, option: str) -> None:
    with pytest.raises(ConfigError, match=f"{option} ' ' must be 1 to 200 printable"):
        app.task(**{option: " "})(work)  # pyright: ignore[reportArgumentType]


def test_keys_may_be_written_in_short(app: Headway) -> None:
    made = app.task(concurrency_key="a", unique="b")(work).definition
    assert (made.key, made.unique) == (Key("a"), Unique("b"))


def test_a_step_has_the_options_of_its_flow_and_knows_which_are_its_own(app: Headway) -> None:
    flow = app.flow(
        "f", queue="q", priority=3, timeout="1m", ttl="1h", transaction=True, dead_letter="dead"
    )
    made = flow.step(name="s", priority=5, delay="2s")(work).definition
    assert (made.name, made.step, made.handler) == ("f", "s", "f/s")
    assert (made.queue, made.priority, made.timeout, made.delay) == ("q", 5, "1m", "2s")
    assert (made.ttl, made.transaction, made.dead_letter) == ("1h", True, "dead")
    assert made.own == {"priority", "delay"}


@pytest.mark.parametrize(
    ("function", "executor", "kind"),
    [
        (work, "thread", "a coroutine"),
        (work, "process", "a coroutine"),
        (plain, "async", "a plain"),
    ],
)
def test_a_function_runs_where_it_can(
    app: Headway, function: Any, executor: Any, kind: str
) -> None:
    with pytest.raises(ConfigError, match=f"is {kind} function and cannot run with executor="):
        app.task(executor=executor)(function)


def test_a_process_has_no_part_in_the_worker_s_transaction(app: Headway) -> None:
    with pytest.raises(ConfigError, match="leave out transaction=True or executor"):
        app.task(executor="process", transaction=True)(plain)


def test_a_task_is_not_named_like_a_step_of_a_flow(app: Headway) -> None:
    with pytest.raises(ConfigError, match="must not contain /"):
        app.task(name="order/pay")(work)


def test_a_task_and_a_flow_of_one_name_are_refused(app: Headway) -> None:
    app.flow("work")
    with pytest.raises(ConfigError, match="there is a task or flow 'work' already"):
        app.task(work)
    app.task(plain)
    with pytest.raises(ConfigError, match="there is a task or flow 'plain' already"):
        app.flow("plain")


def test_b12_a_number_for_retry_is_that_of_attempts() -> None:
    hw = Headway("postgresql://nowhere/x")
    of_three: Any = hw.task(retry=3)(_nothing)
    assert of_three.definition.retry == Retry(max_attempts=3)
    flow = hw.flow("three", retry=3)
    assert flow.step(_nothing).definition.retry.max_attempts == 3


def test_a_number_for_retry_of_a_step_keeps_the_policy_of_its_flow() -> None:
    flow = Headway("postgresql://nowhere/x").flow(
        "slow", retry=Retry(9, base="1m", never=(OSError,))
    )
    step = flow.step(retry=3)(_nothing)
    assert step.definition.retry == Retry(3, base="1m", never=(OSError,))


@pytest.mark.parametrize("wrong", [True, "3", 3.0, 0, -1, Retry])
def test_b12_what_is_no_policy_is_refused_where_it_stands(wrong: Any) -> None:
    hw = Headway("postgresql://nowhere/x")
    with pytest.raises(ConfigError):
        hw.task(retry=wrong)(_nothing)
    with pytest.raises(ConfigError):
        hw.task(_nothing).using(retry=wrong)
    with pytest.raises(ConfigError):
        hw.flow("flow", retry=wrong)


def _nothing() -> None: ...
