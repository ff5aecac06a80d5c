"""Batch tasks: what is refused, and the types of one job that follow from those of many."""

from collections.abc import Iterable, Sequence
from types import NoneType
from typing import Any

import pytest

from headway import Batch, Context, Headway, Retry
from headway.core.batch import answer_type, item_type
from headway.errors import ConfigError, InvalidInput


@pytest.fixture
def app() -> Headway:
    """Never opened."""
    return Headway("postgresql://nowhere")


async def index(documents: list[int]) -> list[str]:
    return []


@pytest.mark.parametrize("size", [0, -1, 1.5, "3", True, None])
def test_a_size_is_a_whole_number_from_one_on(size: Any) -> None:
    with pytest.raises(ConfigError, match="whole number, 1 or more"):
        Batch(size)


@pytest.mark.parametrize("wait", ["soon", -1, None])
def test_a_wait_is_a_duration(wait: Any) -> None:
    with pytest.raises(ConfigError, match="batch wait"):
        Batch(10, wait=wait)


def test_an_option_that_is_no_batch_is_refused_with_one_that_is(app: Headway) -> None:
    with pytest.raises(ConfigError, match=r"batch 100 must be a Batch, such as Batch\(size=100"):
        app.task(batch=100)(index)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "options", [{"transaction": True}, {"executor": "process"}], ids=lambda o: next(iter(o))
)
def test_what_cannot_be_done_for_several_jobs_is_refused(app: Headway, options: Any) -> None:
    def plain(documents: list[int]) -> None: ...

    plain.__qualname__ = "plain"  # as if it stood at the top of its module
    with pytest.raises(ConfigError, match="takes batches: its jobs run in one call"):
        app.task(batch=Batch(10), **options)(plain)


def test_a_step_of_a_flow_takes_no_batches(app: Headway) -> None:
    with pytest.raises(ConfigError, match="a step of f has no option 'batch'"):
        app.flow("f").step(batch=Batch(10))(index)  # type: ignore[call-overload]


def test_a_batch_that_could_never_be_full_is_refused(app: Headway) -> None:
    with pytest.raises(ConfigError, match=r"batches of 10 jobs, .* it has slots for 9"):
        app.task(batch=Batch(10), slots=9)(index)


def test_a_worker_with_too_few_slots_is_refused_if_it_serves_the_queue(app: Headway) -> None:
    app.task(batch=Batch(10), queue="search")(index)
    with pytest.raises(
        ConfigError, match=r"index takes batches of 10 jobs, .* this worker has 9; add"
    ):
        app.worker(concurrency=9)
    with pytest.raises(ConfigError, match="this worker has 9"):
        app.worker(concurrency=9, queues={"*": 1})
    with pytest.raises(ConfigError, match="its queue 'search' has 9"):
        app.worker(concurrency=10, dedicated={"search": 9})
    app.worker(concurrency=10)
    app.worker(concurrency=1, dedicated={"search": 10})
    app.worker(concurrency=9, queues={"mail": 1})


async def one(document: int) -> None: ...
async def two(documents: list[int], others: list[int]) -> None: ...
async def none(contexts: list[Context]) -> None: ...
async def optional(documents: list[int] = []) -> None: ...  # noqa: B006
async def mapping(documents: dict[str, int]) -> None: ...


@pytest.mark.parametrize("function", [one, two, none, optional, mapping], ids=lambda f: f.__name__)
def test_a_function_that_does_not_take_one_list_is_refused(app: Headway, function: Any) -> None:
    with pytest.raises(ConfigError, match="take one list, such as `items: list"):
        app.task(batch=Batch(10))(function)


def test_a_call_takes_one_item_and_says_so(app: Headway) -> None:
    task = app.task(batch=Batch(10), retry=Retry(max_attempts=2))(index)
    assert bytes(task.call(3).job.input) == b'{"documents":3}'
    with pytest.raises(InvalidInput, match="Expected `int`, got `array`"):
        task.call([3])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"it takes \(documents: int\)"):
        task.call(3, 4)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        (list[int], int),
        (Sequence[str], str),
        (Iterable[float], float),
        (list, Any),
        (Any, Any),
        (int, None),
        (str, None),
        (dict[str, int], None),
        (list[int] | None, None),
    ],
)
def test_the_type_of_an_item(kind: Any, item: Any) -> None:
    assert item_type(kind) is item


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (list[int], int),
        (tuple[int, ...], int),
        (tuple[int, str], Any),
        (None, NoneType),
        (list[str | Exception], str),
        (Sequence[str | BaseException], str),
        (list[str | int | ValueError], str | int),
        (list[str] | list[Exception], str),
        (list[str | None], str | None),
        (list[str] | None, str | None),
        (list[Exception], Any),
        (list[Any], Any),
        (int, Any),
    ],
)
def test_the_type_of_an_answer_is_without_its_exceptions(kind: Any, answer: Any) -> None:
    assert answer_type(kind) == answer


def test_a_result_is_read_back_as_its_own_type(app: Headway) -> None:
    @app.task(batch=Batch(10))
    async def split(texts: list[str]) -> list[tuple[str, int] | Exception]:
        return []

    assert split.definition.result.decode(b'["a", 1]') == ("a", 1)
