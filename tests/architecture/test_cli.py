"""The command line is made of public methods: whatever it can do, a program can do too."""

from __future__ import annotations

import ast

from tests.architecture.source import imports, modules

_STORE = {
    "cli/bench/command.py": "measures bare SQL, and removes the schema of the benchmark",
    "cli/bench/figures.py": "reads the samples of sessions",
    "cli/bench/measure.py": "measures bare SQL, and samples sessions",
}
"""Modules that may import the store, and why."""

_SESSION = {
    "cli/loading.py": "configures the app of a command: its database, time limits, embedded server",
}
"""Modules that may use the session of an app, and why."""


_WORKERS = {
    "cli/bench/command.py": "runs an event loop that ends on signals",
    "cli/errors.py": "runs an event loop that ends on signals",
    "cli/worker/reload.py": "knows the exit code of a worker that was drained remotely",
    "cli/worker/run.py": "starts workers and their supervisor",
}
"""Modules that may import the engine, and why."""


def test_the_command_line_does_not_import_private_code() -> None:
    found = {
        module.place
        for name, module in modules().items()
        if name.startswith("headway.cli")
        and any(target.startswith(("headway.engine", "headway._api")) for target in imports(module))
    }
    assert found == set(_WORKERS)


def test_only_the_benchmark_of_the_command_line_imports_the_store() -> None:
    found = {
        module.place
        for name, module in modules().items()
        if name.startswith("headway.cli")
        and any(target.startswith("headway.store") for target in imports(module))
    }
    assert found == set(_STORE)


def test_the_command_line_does_not_use_the_session() -> None:
    found = {
        module.place
        for name, module in modules().items()
        if name.startswith("headway.cli")
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.Attribute) and node.attr in ("session", "_session"))
        or (isinstance(node, ast.Name) and node.id == "session_of")
    }
    assert found == set(_SESSION)
