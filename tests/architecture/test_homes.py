"""Each concept has one home (DESIGN section 4)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.source import Module, modules, roots, strings


def _places(having: str) -> set[str]:
    """The files that import a module, at any depth of its name."""
    return {module.place for module in modules().values() if having in roots(module)}


def _calls(module: Module) -> Iterator[tuple[str, int]]:
    """The last name of everything that is called, with its line: `create_task` of `loop.create_task`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
            if name:
                yield name, node.lineno


def _in(place: str, *folders: str) -> bool:
    return place.split("/")[0] in folders


def test_only_the_store_talks_to_postgresql() -> None:
    drivers = _places("psycopg") | _places("psycopg_pool") | _places("asyncpg")
    assert {place for place in drivers if not _in(place, "store")} == set()
    assert drivers, "the test looks in the right place"


def test_a_driver_of_callers_connections_is_never_imported() -> None:
    """A caller who passes one has imported it. Nobody else needs it installed.

    `django/` is an app of Django's, which nothing else of ours imports.
    """
    for driver in ("asyncpg", "sqlalchemy", "django", "psycopg2"):
        own = f"{driver}/"
        assert {place for place in _places(driver) if not place.startswith(own)} == set(), driver
        spoken = {m.place for m in modules().values() if any(driver == t for _, t in strings(m))}
        assert {p for p in spoken if not p.startswith(("store/caller/", own))} == set()


_SQL = re.compile(
    r"""^\s*(select\s+\S+|insert\s+into\s+\S+|update\s+\S+\s+set\b|delete\s+from\s+\S+
        |create\s+(table|schema|index|function|role|view)\b|alter\s+\w+\s+\S+|drop\s+\w+\s+\S+
        |with\s+\w+\s+as\s*\(|listen\s+\S+|unlisten\b|notify\s+\w+|set\s+\w+\s*=)""",
    re.VERBOSE | re.IGNORECASE,
)
_SPEAK_SQL = {
    "store/activity.py",
    "store/connections/connect.py",
    "store/connections/listen.py",
    "store/migrate.py",
    "store/spare_schemas.py",
    "store/connections/pool.py",
    "store/connections/handler_transactions.py",
    "store/yardstick.py",
}


def test_sql_is_in_sql_files() -> None:
    """But for what has no statement's shape: opening a session, the ledger of migrations, bare SQL."""
    found = {
        (module.place, line, text[:60])
        for module in modules().values()
        if module.place not in _SPEAK_SQL
        for line, text in strings(module)
        if _SQL.search(text)
    }
    assert found == set()
    speaking = {m.place for m in modules().values() if any(_SQL.search(t) for _, t in strings(m))}
    assert speaking == _SPEAK_SQL, "each of the exceptions is still one"


def test_ids_are_made_in_one_place() -> None:
    # The embedded server names its directories by chance; they are no ids.
    assert _places("secrets") == {"core/ids.py", "embedded/places.py"}
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                assert "uuid" not in {alias.name for alias in node.names}, module.place
            if isinstance(node, ast.ImportFrom) and node.module == "uuid":
                assert [alias.name for alias in node.names] == ["UUID"], module.place


_NOWS = {"now", "utcnow", "today"}


def test_time_is_read_in_one_place() -> None:
    """`core/clock.py` alone asks the machine; others may sleep, which is not reading it.

    The embedded server stands below the core and waits for itself.
    """
    for module in modules().values():
        if module.place == "core/clock.py" or _in(module.place, "embedded"):
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom):
                assert node.module != "time", f"{module.place} imports from time"
            if not isinstance(node, ast.Attribute):
                continue
            owner, here = getattr(node.value, "id", ""), f"{module.place}:{node.lineno}"
            if owner == "time":
                assert node.attr == "sleep", f"{here} uses time.{node.attr}"
            if owner in ("datetime", "date"):
                assert node.attr not in _NOWS, f"{here} asks what time it is"
            assert (owner, node.attr) != ("loop", "time"), f"{here} reads the loop's clock"


def test_the_core_leaves_chance_to_its_callers() -> None:
    assert {place for place in _places("random") if _in(place, "core")} == set()
    assert "engine/running/executor.py" in _places("random")


def test_the_wire_format_is_written_and_read_in_one_place() -> None:
    assert _places("json") == set()
    assert _places("pickle") | _places("marshal") | _places("shelve") == set()
    # NewJob is a document for enqueue.sql, encoded by the codec like all others.
    # faults.py names the errors of the codec, constraints.py looks at types; they encode nothing.
    naming = {"core/constraints.py", "store/faults.py"}
    assert _places("msgspec") == {"core/codec.py", "store/documents.py"} | naming


_START_TASKS = {
    "engine/service.py",  # the loop of a service
    "engine/running/executor.py",  # a job
    "engine/running/batches.py",  # a call for several jobs
    "engine/supervisor.py",  # a worker process
    "engine/worker.py",  # its own end, which a cancellation must not cut short
    "fastapi.py",  # the worker inside a server
}


def test_background_tasks_are_started_where_someone_looks_after_them() -> None:
    starting = {"create_task", "ensure_future", "TaskGroup", "run_coroutine_threadsafe"}
    found = {
        module.place
        for module in modules().values()
        if starting & {name for name, _ in _calls(module)}
    }
    assert found == _START_TASKS


def test_the_core_touches_nothing_outside_itself() -> None:
    forbidden = {"asyncio", "socket", "subprocess", "multiprocessing", "selectors", "signal"}
    for module in modules().values():
        if _in(module.place, "core"):
            assert not roots(module) & forbidden, module.place


def test_settings_are_read_from_files_and_the_environment_in_one_place() -> None:
    assert _places("tomllib") == {"settings/files.py", "settings/log_config.py"}
    asking = {
        module.place
        for module in modules().values()
        for node in ast.walk(module.tree)
        if getattr(node, "attr", "") in ("environ", "getenv")
    }
    # The others read no settings: where PostgreSQL's programs are, who started this process.
    others = {place for place in asking if _in(place, "embedded")} | {
        "cli/loading.py",
        "engine/supervisor.py",
        "engine/health/systemd.py",
    }
    assert asking - others == {"settings/environment.py"}


@pytest.mark.parametrize("name", modules())
def test_nothing_is_called_by_a_word_that_says_nothing(name: str) -> None:
    words = re.compile(r"(?i)(manager|helper|utils?|commons?|misc)(_|$)")
    module = modules()[name]
    assert not words.search(module.path.stem), (
        f"{module.place} is named by a word that says nothing"
    )
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef):
            assert not words.search(node.name), f"{module.place}: class {node.name}"


_CONNECTS = ("psycopg.connect", "Connection.connect")
_PINS = {"CLIENT_SESSION", "HANDLER_SESSION", "_ENGINE_SESSION"}
_UNPINNED = {
    (
        "store/connections/connect.py",
        "connect_sync",
    ),  # listeners, and `run_once` with its transaction
    ("store/migrate.py", "run"),  # `steps` begins with its pins
    ("store/migrate.py", "run_sync"),
}


def test_s5_every_connection_pins_its_settings_where_it_is_opened() -> None:
    opening, bare = 0, set[tuple[str, str]]()
    for module in modules().values():
        for function in ast.walk(module.tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            parts = list(ast.walk(function))
            called = [ast.unparse(part.func) for part in parts if isinstance(part, ast.Call)]
            if any(name.endswith(_CONNECTS) for name in called):
                opening += 1
                names = {getattr(part, "attr", None) or getattr(part, "id", None) for part in parts}
                if not names & _PINS:
                    bare.add((module.place, function.name))
    assert bare == _UNPINNED
    assert opening > len(_UNPINNED)
