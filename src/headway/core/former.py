"""Handlers under their earlier names, for jobs that were made under them. Pure."""

from __future__ import annotations

from dataclasses import replace

from headway.core.definition import Definition
from headway.errors import ConfigError


def with_former(definition: Definition) -> list[Definition]:
    """Return a task or a step, and the same under each earlier name of it and of its flow."""
    if definition.flow is None:
        return [definition, *(replace(definition, name=name) for name in definition.former_names)]
    older = [
        replace(definition, step=name, renamed_to=definition.step)
        for name in definition.former_names
    ]
    steps = [definition, *older]
    return [
        *steps,
        *(replace(step, name=name) for name in definition.flow.former_names for step in steps),
    ]


def of_flow(steps: list[Definition]) -> list[Definition]:
    """Return the steps of a flow, also under earlier names. Raise ConfigError if two share a name."""
    found: dict[str, Definition] = {}
    for definition in (each for step in steps for each in with_former(step)):
        if definition.handler in found:
            raise ConfigError(
                f"two steps of flow {definition.name} are or were called {definition.step!r}; a former "
                "name must be of one step only"
            )
        found[definition.handler] = definition
    return list(found.values())
