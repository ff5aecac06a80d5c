"""The state of a flow: typed, kept with a success, and as it was before a failure."""

from dataclasses import dataclass, field

import pytest

from headway import Context, Headway, Next, Retry
from headway.errors import ConfigError, InvalidInput, PayloadTooLarge

AT_ONCE = Retry(max_attempts=3, backoff="constant", base=0, jitter=0)


@dataclass
class Line:
    article: str
    count: int = 1


@dataclass
class Cart:
    lines: list[Line] = field(default_factory=list)
    note: str = ""


@dataclass
class Strict:
    needed: int


@pytest.fixture
def shop(hw: Headway):
    """A flow whose steps change the state, also before they fail."""
    flow = hw.flow("shop", state=Cart, retry=AT_ONCE)

    @flow.step
    async def add(ctx: Context, article: str) -> Next:
        flow.state(ctx).lines.append(Line(article))
        return pack.next()

    @flow.step
    def pack(ctx: Context) -> Next:
        cart = flow.state(ctx)
        cart.note += f"attempt {ctx.attempt};"
        if ctx.attempt < 3:
            raise OSError("not yet")
        return send.next()

    @flow.step
    async def send(ctx: Context) -> list[str]:
        cart = flow.state(ctx)
        assert all(isinstance(line, Line) for line in cart.lines)
        cart.note += "sent"
        return [*(line.article for line in cart.lines), cart.note]

    return flow


async def test_the_state_is_kept_with_a_success_and_not_with_a_failed_attempt(hw, shop) -> None:
    job = await shop.enqueue("ink")
    assert (await job.status()).carried == {"lines": [], "note": ""}
    await hw.run_until_idle()
    assert await job.result() == ["ink", "attempt 3;sent"]
    kept = {"lines": [{"article": "ink", "count": 1}], "note": "attempt 3;sent"}
    assert (await job.status()).carried == kept


async def test_a_call_may_bring_a_state_and_each_job_has_its_own(hw, shop) -> None:
    begun = Cart([Line("paper")], "given;")
    jobs = [await shop.using(state=begun).enqueue("ink"), await shop.enqueue("pen")]
    await hw.run_until_idle()
    assert await jobs[0].result() == ["paper", "ink", "given;attempt 3;sent"]
    assert await jobs[1].result() == ["pen", "attempt 3;sent"]
    assert begun == Cart([Line("paper")], "given;")


async def test_a_step_that_takes_no_context_hands_the_state_on(hw) -> None:
    flow = hw.flow("through", state=dict[str, int])

    @flow.step
    async def first(ctx: Context) -> Next:
        flow.state(ctx)["a"] = 1
        return middle.next()

    @flow.step
    async def middle() -> Next:
        return last.next()

    @flow.step
    async def last(ctx: Context) -> dict[str, int]:
        ctx.state = {**flow.state(ctx), "b": 2}
        return flow.state(ctx)

    job = await flow.enqueue()
    await hw.run_until_idle()
    assert await job.result() == {"a": 1, "b": 2}
    assert (await job.status()).carried == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda cart: setattr(cart, "note", 5), "Expected `str`, got `int`"),
        (lambda cart: setattr(cart, "note", "\0"), "NUL"),
        (lambda cart: setattr(cart, "note", object()), "object cannot be stored as JSON"),
        (lambda cart: setattr(cart, "note", "x" * 3_000), "limit of 2,000"),
    ],
    ids=["wrong type", "nul", "not json", "too large"],
)
async def test_a_state_that_cannot_be_stored_fails_the_step_at_once_and_changes_nothing(
    dsn: str, schema: str, spoil, words: str
) -> None:
    async with Headway(dsn, schema=schema, max_payload_bytes=2_000) as hw:
        flow = hw.flow("spoilt", state=Cart, retry=AT_ONCE)

        @flow.step
        async def first(ctx: Context) -> Next:
            spoil(flow.state(ctx))
            return second.next()

        @flow.step
        async def second() -> None: ...

        job = await flow.enqueue()
        await hw.run_until_idle()
        status = await job.status()
        assert (status.state, status.step, status.attempt) == ("failed", "first", 1)
        assert status.error["type"] == "InvalidResult"
        assert "the state of flow spoilt" in status.error["message"]
        assert words in status.error["message"]
        assert status.carried == {"lines": [], "note": ""}


async def test_a_stored_state_that_no_longer_fits_fails_at_once_and_resumes_once_it_does(
    hw, shop, db
) -> None:
    job = await shop.using(delay="1h").enqueue("ink")
    db.execute("update job set carried = '{\"note\": 1}'")
    await job.retry()
    await hw.run_until_idle()
    status = await job.status()
    assert (status.state, status.step, status.attempt) == ("failed", "add", 1)
    assert status.error["type"] == "InvalidInput"
    assert "the state of flow shop: Expected `str`, got `int`" in status.error["message"]
    db.execute('update archive set carried = \'{"note": "mended;"}\'')
    assert await job.retry()
    await hw.run_until_idle()
    assert await job.result() == ["ink", "mended;attempt 3;sent"]


async def test_a_job_that_brings_no_state_starts_with_an_empty_one(hw, shop, db) -> None:
    """As one that SQL made, or one from before the flow carried anything."""
    job = await shop.using(delay="1h").enqueue("ink")
    db.execute("update job set carried = null")
    await job.retry()
    await hw.run_until_idle()
    assert await job.result() == ["ink", "attempt 3;sent"]


async def test_a_bad_state_of_a_call_fails_before_the_database(hw, shop, db) -> None:
    with pytest.raises(InvalidInput, match="the state of flow shop: Expected `str`, got `int`"):
        await shop.using(state={"note": 1}).enqueue("ink")
    with pytest.raises(InvalidInput, match="flow shop"):
        await shop.using(state=object()).enqueue("ink")
    hw._session.max_payload_bytes = 100
    with pytest.raises(PayloadTooLarge, match="the state of flow shop"):
        await shop.using(state=Cart(note="x" * 100)).enqueue("ink")
    assert db.execute("select count(*) from job").fetchone() == (0,)


async def test_a_state_that_cannot_be_made_without_arguments_has_to_come_with_the_call(hw) -> None:
    flow = hw.flow("strict", state=Strict)

    @flow.step
    async def only(ctx: Context) -> int:
        return flow.state(ctx).needed

    with pytest.raises(
        InvalidInput, match=r"strict cannot be made without arguments.*using\(state"
    ):
        await flow.enqueue()
    job = await flow.using(state=Strict(5)).enqueue()
    await hw.run_until_idle()
    assert await job.result() == 5


async def test_a_flow_without_state_has_none_to_give_or_take(hw) -> None:
    flow = hw.flow("stateless")

    @flow.step
    async def only(ctx: Context) -> str:
        try:
            flow.state(ctx)
        except ConfigError as error:
            return str(error)
        return "no error"

    with pytest.raises(ConfigError, match="carries no state"):
        await flow.using(state={}).enqueue()
    job = await flow.enqueue()
    await hw.run_until_idle()
    assert await job.result() == "flow stateless has no state; define it with state="


def test_a_type_that_cannot_be_stored_is_no_state(hw) -> None:
    with pytest.raises(ConfigError, match="flow odd"):
        hw.flow("odd", state=list[int] | set[int])
