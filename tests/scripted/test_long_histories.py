"""Long histories at random: many jobs of every kind, and a fault now and then."""

from __future__ import annotations

from random import Random

import pytest

from tests.scripted.cast import Cast
from tests.scripted.history import FORGET, WAYS, History
from tests.scripted.stage import Stage

_JOBS = 10
_FAULTS = 0.12


@pytest.mark.parametrize(("first", "limits"), [(0, True), (5, False), (10, True), (15, False)])
async def test_everything_ends_once_whatever_happens(stage: Stage, cast: Cast, first: int) -> None:
    for seed in range(first, first + 5):
        chance = Random(seed)

        def choose(count: int, chance: Random = chance) -> int:
            return chance.randrange(1, count) if chance.random() < _FAULTS else 0

        setup = cast.setup(*chance.choices(cast.kinds, k=_JOBS))
        history = History(stage, choose, (*WAYS, FORGET), faults=1_000, within=1_000)
        await history.play(setup)
        assert cast.effects() == [], f"seed {seed}"
