"""The sdist and the wheel hold what they must, and the wheel works where nothing else is installed."""

from __future__ import annotations

import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import __version__
from tests.packaging.conftest import ROOT, Built, Environment

_PROGRAM = """
import headway

hw = headway.Headway()

@hw.task
def add(a: int, b: int = 1) -> int:
    return a + b

@hw.task
async def greet(ctx: headway.Context, name: str) -> str:
    return f"hello {name}, attempt {ctx.attempt}"

if __name__ == "__main__":
    hw.migrate_sync()
    added, greeted = add.enqueue_sync(2), greet.enqueue_sync("Ada")
    report = hw.run_until_idle_sync()
    print(report.total, added.result_sync(), greeted.result_sync(), headway.__file__)
    hw.close_sync()
"""


@pytest.fixture(scope="session")
def package_metadata(built: Built) -> Message:
    with zipfile.ZipFile(built.wheel) as wheel:
        name = f"headway-{__version__}.dist-info/METADATA"
        return Parser().parsestr(wheel.read(name).decode())


def _sources() -> set[str]:
    """Every file of the package, as the wheel should have it."""
    package = ROOT / "src" / "headway"
    files = (file for file in package.rglob("*") if file.is_file())
    return {
        file.relative_to(package.parent).as_posix()
        for file in files
        if "__pycache__" not in file.parts
    }


def test_the_wheel_is_pure_and_holds_the_whole_package_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith("/")}
    assert built.wheel.name == f"headway-{__version__}-py3-none-any.whl"
    assert {name for name in names if name.startswith("headway/")} == _sources()
    assert {name.split("/")[0] for name in names} == {
        "headway",
        "headway_pytest.py",  # the plugin, which pytest imports without the package
        f"headway-{__version__}.dist-info",
    }


def test_the_wheel_holds_its_types_its_sql_and_its_licence(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
    assert "headway/py.typed" in names
    statements = {path.name for path in (ROOT / "src/headway/store/sql").rglob("*.sql")}
    assert len(statements) >= 20
    assert statements == {Path(name).name for name in names if name.endswith(".sql")}
    assert f"headway-{__version__}.dist-info/licenses/LICENSE" in names


def test_the_sdist_holds_what_is_needed_to_build_and_test_it(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO", "run", "test"} <= names
    assert {"tests/conftest.py", "scripts/setup"} <= names
    assert {f"src/{name}" for name in _sources()} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith(".venv")]


def test_the_metadata_says_what_it_is_and_where_it_runs(package_metadata: Message) -> None:
    assert package_metadata["Name"] == "headway"
    assert package_metadata["Version"] == __version__
    assert package_metadata["License-Expression"] == "Apache-2.0"
    assert package_metadata["License-File"] == "LICENSE"
    assert package_metadata["Requires-Python"] == ">=3.11"
    assert package_metadata["Summary"]
    classifiers = set(package_metadata.get_all("Classifier", []))
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} <= classifiers
    assert "Typing :: Typed" in classifiers
    assert not [word for word in classifiers if word.startswith("License ::")], (
        "the expression says it"
    )


def test_the_extras_and_the_command_are_declared(
    package_metadata: Message, project: dict[str, Any]
) -> None:
    assert {"local", "fast"} <= set(package_metadata.get_all("Provides-Extra", []))
    assert project["scripts"] == {"headway": "headway.cli:main"}


def test_the_version_is_written_once(package_metadata: Message, project: dict[str, Any]) -> None:
    assert project.get("version", __version__) == __version__ == package_metadata["Version"]


@pytest.mark.slow
def test_the_wheel_runs_jobs_where_nothing_else_is_installed(
    environment: Environment, schema: str, dsn: str, db: psycopg.Connection[Any]
) -> None:
    """With the declared dependencies alone: no uvloop, no embedded server, nothing of the tests."""
    program = environment.root / "program.py"
    program.write_text(_PROGRAM.replace("Headway()", f"Headway(schema={schema!r})"))
    done = environment.run("python", program, HEADWAY_DATABASE_URL=dsn)
    total, added, *greeting, place = done.stdout.split()
    assert (total, added, " ".join(greeting)) == ("2", "3", "hello Ada, attempt 1")
    assert Path(place).is_relative_to(environment.root)
    assert db.execute("select task, state from jobs order by task").fetchall() == [
        ("add", "succeeded"),
        ("greet", "succeeded"),
    ]


@pytest.mark.slow
def test_every_module_of_the_wheel_can_be_imported(environment: Environment) -> None:
    """None needs more than is declared, except for the app of Django's, which Django imports."""
    modules = [
        name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for name in _sources()
        if name.endswith(".py")
        and not name.endswith("__main__.py")
        and "/templates/" not in name
        and not name.startswith("headway/django/")
    ]
    program = f"import importlib\nfor name in {sorted(modules)!r}: importlib.import_module(name)"
    environment.run("python", "-c", program)


@pytest.mark.slow
def test_the_command_is_installed_and_works(environment: Environment, dsn: str) -> None:
    words = environment.run("headway", "--help").stdout
    for command in ("worker", "migrate", "job", "queue", "health", "init"):
        assert command in words
    assert __version__ in environment.run("headway", "--version").stdout
    assert environment.run("python", "-m", "headway", "--help").stdout.split()[0] == "Usage:"
    assert "create table" in environment.run("headway", "migrate", "--sql").stdout


@pytest.mark.slow
def test_the_example_project_of_init_is_in_the_wheel(environment: Environment) -> None:
    """`headway init` writes files that are data of the package."""
    environment.run("headway", "init", "example")
    assert list((environment.root / "example").rglob("*.py"))
