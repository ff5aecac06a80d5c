"""A batch task that tells what it was called with, and waits until it is let through."""

from __future__ import annotations

import asyncio
from typing import Any

from headway import Batch, Context, Headway


class Doubling:
    """Doubles numbers, several in one call."""

    def __init__(self, hw: Headway, batch: Batch, **options: Any) -> None:
        self.calls: list[list[int]] = []
        self.contexts: list[Context] = []
        self.opened = asyncio.Event()
        self.inside = 0
        self.most_inside = 0
        self.told = 0
        """How often a call was cancelled."""
        self.cleaned = 0
        """How often it could take its time after that."""

        @hw.task(batch=batch, **options)
        async def double(contexts: list[Context], numbers: list[int]) -> list[int]:
            self.calls.append(numbers)
            self.contexts += contexts
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
            try:
                await self.opened.wait()
            except asyncio.CancelledError:
                self.told += 1
                await asyncio.sleep(0.02)
                self.cleaned += 1
                raise
            finally:
                self.inside -= 1
            return [number * 2 for number in numbers]

        self.task = double

    @property
    def sizes(self) -> list[int]:
        return [len(call) for call in self.calls]
