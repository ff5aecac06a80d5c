"""Flows: where a step goes, and by whose options."""

from dataclasses import dataclass
from typing import Any

import pytest

from headway import Flow, Headway, Key, Retry
from headway.core.flow import Advance, Next, advance, following
from headway.errors import ConfigError, InvalidInput


@pytest.fixture
def app() -> Headway:
    """Never opened."""
    return Headway("postgresql://nowhere")


FLOW: dict[str, Any] = {"queue": "flow", "priority": 1, "retry": Retry(max_attempts=2)}
CALL: dict[str, Any] = {
    "queue": "call",
    "priority": 3,
    "max_attempts": 4,
    "key": ["call", 5, False],
}
STEP: dict[str, Any] = {
    "queue": "step",
    "priority": 6,
    "retry": Retry(max_attempts=7),
    "concurrency_key": Key("step", limit=8),
}


def moved(flow: Flow[Any], call: dict[str, Any], **options: Any) -> Advance:
    """The move from a first step to one with these options."""

    @flow.step
    async def first() -> None: ...

    @flow.step(**options)
    async def second(n: int, m: int = 2) -> None: ...

    return advance(first.definition, second.next(1), call)


def test_the_move_says_everything_that_the_row_needs(app: Headway) -> None:
    assert moved(app.flow("f"), {}) == Advance(
        step="second",
        input=b'{"n":1,"m":2}',
        delay=0.0,
        queue="default",
        priority=0,
        max_attempts=Retry().max_attempts,
        key=None,
        key_limit=None,
        ordered=False,
    )


@pytest.mark.parametrize(
    ("call", "step", "expected"),
    [
        ({}, {}, ("flow", 1, 2, None, None)),
        (CALL, {}, ("call", 3, 4, "call", 5)),
        (CALL, STEP, ("step", 6, 7, "step", 8)),
        ({}, STEP, ("step", 6, 7, "step", 8)),
        ({"queue": "call"}, {"priority": 6}, ("call", 6, 2, None, None)),
    ],
    ids=["the flow's", "the call's", "the step's", "no call's", "each by itself"],
)
def test_an_option_is_the_step_s_own_else_the_call_s_else_the_flow_s(
    app: Headway, call: dict[str, Any], step: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    move = moved(app.flow("f", **FLOW), call, **step)
    found = (move.queue, move.priority, move.max_attempts, move.key, move.key_limit)
    assert found == expected


def test_an_own_option_counts_even_where_it_is_the_default(app: Headway) -> None:
    move = moved(app.flow("f", **FLOW), CALL, queue="default", priority=0, retry=Retry())
    assert (move.queue, move.priority, move.max_attempts) == ("default", 0, Retry().max_attempts)


def test_a_step_s_key_is_a_function_of_its_own_input_with_defaults(app: Headway) -> None:
    key = Key(lambda n, m: f"{n}-{m}", ordered=True)
    move = moved(app.flow("f"), CALL, concurrency_key=key)
    assert (move.key, move.key_limit, move.ordered) == ("1-2", 1, True)


def test_a_step_whose_key_s_function_says_none_has_none(app: Headway) -> None:
    move = moved(app.flow("f"), CALL, concurrency_key=lambda **_: None)
    assert (move.key, move.key_limit, move.ordered) == (None, None, False)


def test_a_step_may_say_that_it_runs_under_no_key(app: Headway) -> None:
    move = moved(app.flow("f", concurrency_key="flow"), CALL, concurrency_key=None)
    assert (move.key, move.key_limit, move.ordered) == (None, None, False)


@pytest.mark.parametrize(("call", "expected"), [({}, "flow-1"), ({"concurrency_key": "c"}, "c")])
def test_the_key_of_the_whole_job_waits_for_a_step_without_one_of_its_own(
    app: Headway, call: dict[str, Any], expected: str
) -> None:
    """Also where the job starts at a step that has one."""
    flow = app.flow("f", concurrency_key=lambda n: f"flow-{n}")

    @flow.step(concurrency_key="own")
    async def first(n: int) -> None: ...

    @flow.step
    async def second(n: int) -> None: ...

    job = flow.using(**call).call(n=1).job
    assert job.key == "own"
    assert advance(first.definition, second.next(2), job.options).key == expected


def test_a_delay_is_what_after_says_else_the_step_s_own(app: Headway) -> None:
    flow = app.flow("f")

    @flow.step
    async def first() -> None: ...

    @flow.step(delay="1m")
    async def later() -> None: ...

    def delay(to: Next) -> float:
        return advance(first.definition, to, {}).delay

    assert delay(first.next()) == 0.0
    assert delay(first.after("1h")) == 3600.0
    assert delay(later.next()) == 60.0
    assert delay(later.after(0)) == 0.0
    with pytest.raises(ConfigError, match="delay 'soon' is not a duration"):
        first.after("soon")


def test_a_step_may_go_to_itself(app: Headway) -> None:
    flow = app.flow("f")

    @flow.step
    async def again(n: int) -> None: ...

    assert advance(again.definition, again.next(2), {}).step == "again"


def test_a_step_of_another_flow_is_refused_by_name(app: Headway) -> None:
    here, there = app.flow("here"), app.flow("there")

    @here.step
    async def a() -> None: ...

    @there.step
    async def b() -> None: ...

    with pytest.raises(InvalidInput, match=r"here/a returned there/b, which is not a step of its"):
        advance(a.definition, b.next(), {})


def test_a_flow_of_the_same_name_in_another_app_is_another_flow(app: Headway) -> None:
    flows = app.flow("f"), Headway("postgresql://nowhere").flow("f")
    steps = [flow.step(name="a")(lambda: None) for flow in flows]
    with pytest.raises(InvalidInput, match="not a step of its flow"):
        advance(steps[0].definition, steps[1].next(), {})


def test_the_next_input_must_fit_the_next_step(app: Headway) -> None:
    flow = app.flow("f")

    @flow.step
    async def first() -> None: ...

    @flow.step
    async def second(n: int) -> None: ...

    with pytest.raises(InvalidInput, match="f/second: missing a required argument: 'n'"):
        second.next()  # pyright: ignore[reportCallIssue]
    wrong = second.next("one")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match="f/second: Expected `int`, got `str`"):
        advance(first.definition, wrong, {})


# -- chains ---------------------------------------------------------------------------------------


@dataclass
class Chained:
    flow: Flow[None]
    a: Any
    b: Any
    c: Any


@pytest.fixture
def chained(app: Headway) -> Chained:
    flow = app.flow("f")

    @flow.step
    async def a(n: int) -> str:
        return str(n)

    @flow.step
    async def b(text: str) -> list[str]:
        return [text]

    @flow.step
    async def c(texts: list[str], count: int = 1) -> int:
        return len(texts)

    flow.chain(a, b, c)
    return Chained(flow, a, b, c)


def test_each_step_of_a_chain_takes_the_result_of_the_one_before(chained: Chained) -> None:
    a, b, c = (step.definition for step in (chained.a, chained.b, chained.c))
    assert following(a, "x") == Next(b, {"text": "x"})
    assert following(b, ["x"]) == Next(c, {"texts": ["x"]})
    assert following(c, 1) is None, "the last one ends the flow"
    for definition in (a, b, c):
        definition.check()


def test_a_step_of_a_chain_may_go_elsewhere_if_it_says_so(chained: Chained) -> None:
    elsewhere = chained.c.next([])
    assert following(chained.a.definition, elsewhere) is elsewhere


def test_a_result_that_the_next_step_does_not_take_is_refused(chained: Chained) -> None:
    wrong = following(chained.a.definition, 5)
    assert wrong is not None
    with pytest.raises(InvalidInput, match="f/b: Expected `str`, got `int`"):
        advance(chained.a.definition, wrong, {})


def test_a_step_is_followed_by_one_other_at_most(chained: Chained) -> None:
    with pytest.raises(ConfigError, match="f/a is followed by b already"):
        chained.flow.chain(chained.a, chained.c)


def test_a_chain_is_made_of_steps_of_its_flow(app: Headway, chained: Chained) -> None:
    other = app.flow("other")

    @other.step
    async def d(n: int) -> None: ...

    with pytest.raises(ConfigError, match="other/d is not a step of flow f"):
        chained.flow.chain(d, chained.a)
    with pytest.raises(ConfigError, match="other/d is not a step of flow f"):
        chained.flow.chain(chained.c, d)


@pytest.mark.parametrize("function", [lambda: None, lambda a, b: None, lambda *, a: None])
def test_what_follows_must_take_one_value_or_no_worker_starts(app: Headway, function: Any) -> None:
    flow = app.flow("f")
    first = flow.step(name="first")(lambda: 1)
    flow.chain(first, flow.step(name="wrong")(function))
    with pytest.raises(ConfigError, match="f/wrong follows first, but it takes"):
        first.definition.check()


# -- names ----------------------------------------------------------------------------------------


def test_a_flow_starts_at_the_first_step_declared(app: Headway, chained: Chained) -> None:
    assert [one.handler for one in chained.flow.definitions()] == ["f/a", "f/b", "f/c"]
    assert chained.flow.call(n=1).job.step == "a"
    assert chained.b.call("x").job.step == "b"
    with pytest.raises(ConfigError, match=r"flow empty has no steps yet; declare one"):
        app.flow("empty").call()


def test_two_steps_of_one_name_are_refused(chained: Chained) -> None:
    with pytest.raises(ConfigError, match="flow f has a step 'a' already"):
        chained.flow.step(name="a")(lambda: None)


@pytest.mark.parametrize("name", ["a/b", "", "a\n", "x" * 201])
def test_a_flow_and_a_step_need_a_name_that_a_handler_s_can_be_made_of(
    app: Headway, chained: Chained, name: str
) -> None:
    with pytest.raises(ConfigError, match=r"name .* must"):
        app.flow(name)
    if name:  # an empty one means: the function's
        with pytest.raises(ConfigError, match=r"step name .* must"):
            chained.flow.step(name=name)(lambda: None)
