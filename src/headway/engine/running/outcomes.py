"""From the value of a handler to an outcome: a result, a move to the next step, or an error. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.core import codec, failure, flow
from headway.core.context import Context
from headway.core.definition import Definition
from headway.core.verdict import Broke, Moved, Returned
from headway.errors import InvalidInput


def outcome_of(
    definition: Definition,
    value: Any,
    context: Context | None,
    options: Mapping[str, Any],
    most_bytes: int,
) -> Returned | Moved | Broke:
    """Return the outcome of a handler that returned `value`. `options` are those of the job."""
    try:
        carried = _carried(definition, context, most_bytes)
        children = (context.children or None) if context is not None else None
        going = flow.following(definition, value)
        if going is None:
            result = codec.check_size(codec.encode(value), most_bytes, "the result")
            return Returned(result, carried, children)
    except InvalidInput as error:
        return Broke(failure.envelope_of(error, failure.INVALID_RESULT), again=False)
    try:
        move = flow.advance(definition, going, options)
        codec.check_size(move.input, most_bytes, f"the input of {going.step.handler}")
        return Moved(move, carried, children)
    except InvalidInput as error:
        return Broke(failure.envelope_of(error, failure.INVALID_INPUT), again=False)


def state_of(definition: Definition, carried: str | None) -> Any:
    """Return the state of a flow, which its handler may change."""
    steps = definition.flow
    if steps is None or steps.state is None:
        return None
    return steps.initial_state() if carried is None else steps.read_state(carried)


def _carried(definition: Definition, context: Context | None, most_bytes: int) -> bytes | None:
    if context is None or definition.flow is None or definition.flow.state is None:
        return None
    return definition.flow.write_state(context.state, most_bytes)
