"""Slots of handlers that have their own: how many jobs of a task may run at once in one worker."""

from __future__ import annotations

from collections.abc import Mapping

from headway.core.config import WorkerOptions
from headway.core.definition import Definition
from headway.engine.claiming.fair_share import EVERY


def slots_of(definitions: Mapping[str, Definition], processes: int) -> dict[str, int]:
    """Return how many slots each handler may use, for those that may not use all of them."""
    found = {handler: _slots(d, processes) for handler, d in definitions.items()}
    return {handler: slots for handler, slots in found.items() if slots is not None}


def check_batches(
    definitions: Mapping[str, Definition], queues: Mapping[str, int], options: WorkerOptions
) -> None:
    """Raise ConfigError if the batches of a task could never be full. `queues` share their slots."""
    for definition in definitions.values():
        if definition.batch is None:
            continue
        if (slots := options.dedicated.get(definition.queue)) is not None:
            what = f"its queue {definition.queue!r} has"
            definition.batch.check_slots(definition.handler, slots, what)
        elif definition.queue in queues or EVERY in queues:
            definition.batch.check_slots(definition.handler, options.concurrency, "this worker has")


def _slots(definition: Definition, processes: int) -> int | None:
    if definition.executor == "process":
        return min(definition.slots or processes, processes)
    if definition.batch is not None and definition.slots is None:
        # More jobs than one call takes would wait here while other workers are free.
        return definition.batch.size
    return definition.slots
