"""Every short history: each way in which a message can go wrong, at each of the first messages."""

from __future__ import annotations

import pytest

from tests.scripted.cast import Cast
from tests.scripted.history import DELAY, FORGET, LOSE_REPLY, WAYS, play_all
from tests.scripted.stage import SLOTS, Stage

_CASES = {
    "plain": ("plain", "plain"),
    "full": ("plain",) * (SLOTS + 1),
    "retry": ("again",),
    "flow": ("flow",),
    "key": ("keyed", "keyed"),
    "limit": ("limited", "limited"),
    "stop": ("stopped", "plain"),
    "refused": ("refused", "plain"),
    "nonsense": ("beside_nonsense",),
    "transaction": ("booked",),
}
"""In `full` there are more jobs than slots, so verdicts are settled in parallel with the next claim."""
_PROMPT = ("plain", "flow", "refused")
"""Cases that end without a rest if nothing goes wrong."""


@pytest.mark.parametrize(("case", "limits"), [(case, case == "limit") for case in _CASES])
async def test_everything_ends_once_whatever_one_message_meets(
    stage: Stage, cast: Cast, case: str
) -> None:
    histories = await play_all(
        stage,
        cast.setup(*_CASES[case]),
        ways=(*WAYS, FORGET),
        faults=1,
        within=9,
        prompt=case in _PROMPT,
    )
    print(case, histories)
    assert histories > 30
    assert cast.effects() == []


@pytest.mark.parametrize(("case", "limits"), [("plain", False), ("flow", False), ("stop", True)])
async def test_everything_ends_once_whatever_two_messages_meet(
    stage: Stage, cast: Cast, case: str
) -> None:
    setup, ways = cast.setup(*_CASES[case][:1]), (DELAY[1], LOSE_REPLY)
    histories = await play_all(stage, setup, ways=ways, faults=2, within=6)
    print(case, histories)
    assert histories > 30
