"""Every Python block of README.md, the other documents next to it and docs/ runs as it is written.

The convention for those who write them:

- The blocks of a file run in order, in one namespace, as one program would: what an earlier one
  defined is there for a later one. Assertions in them hold.
- `await` at the top level is allowed, and all of a file's awaiting blocks run on one event loop. A
  block without it runs in a thread as `__main__` does, so `asyncio.run(main())` works there.
- `Headway()` finds an empty database of the file's own through $HEADWAY_DATABASE_URL. No schema is in
  it: the file migrates. No worker runs: the file runs its jobs itself.
- The working directory is empty.
- A block that cannot run (it never ends, it needs another server) says why on the line before it:
  `<!-- not run: it serves until it is stopped -->`. It must still be Python.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import psycopg
import pytest
from psycopg import sql

from headway import Headway
from tests.examples.markdown import ROOT, Block, blocks, documents

_DEADLINE = 60.0


@pytest.fixture
def own_database(
    server_dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[None]:
    """An empty database, found by `Headway()`, and an empty directory."""
    # Processes of one run share the server, and their directories may have the same name.
    name = sql.Identifier(f"headway_docs_{os.getpid()}")
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("drop database if exists {} with (force)").format(name))
        conn.execute(sql.SQL("create database {}").format(name))
        dsn = psycopg.conninfo.make_conninfo(server_dsn, dbname=name.as_string().strip('"'))
        monkeypatch.setenv("HEADWAY_DATABASE_URL", dsn)
        monkeypatch.delenv("DATABASE_URL", raising=False)
        monkeypatch.chdir(tmp_path)
        yield
        conn.execute(sql.SQL("drop database {} with (force)").format(name))


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that a file's blocks make up; a real one, so that annotations can be looked up."""
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    return module


@pytest.mark.parametrize("file", documents(), ids=lambda file: str(file.relative_to(ROOT)))
async def test_every_block_of_a_document_runs(
    file: Path, own_database: None, program: ModuleType
) -> None:
    try:
        for block in blocks(file):
            if block.not_run is None:
                async with asyncio.timeout(_DEADLINE):
                    await _run(block, program)
    finally:
        for value in list(vars(program).values()):
            if isinstance(value, Headway):
                await value.close()


async def _run(block: Block, program: ModuleType) -> None:
    code = block.compiled()
    if code.co_flags & inspect.CO_COROUTINE:
        await eval(code, vars(program))
    else:
        await asyncio.to_thread(exec, code, vars(program))


def test_what_does_not_run_is_python_all_the_same() -> None:
    for file in documents():
        for block in blocks(file):
            assert block.compiled(), str(block)


def test_there_are_blocks_that_run_in_the_readme_and_in_the_docs() -> None:
    """The test above cannot pass for want of anything to run."""
    running = [block for file in documents() for block in blocks(file) if block.not_run is None]
    assert len({block.file for block in running if block.file.parent == ROOT / "docs"}) >= 3
    assert len([block for block in running if block.file == ROOT / "README.md"]) >= 1
    assert len(running) >= 15


def test_blocks_are_found_with_their_lines_and_reasons(tmp_path: Path) -> None:
    file = tmp_path / "x.md"
    file.write_text(
        "```python\na = 1\n```\n\n<!-- not run: it never ends -->\n```python\nawait b\n```\n"
        "```sh\nls\n```\n- item\n  ```python\n  c = 1\n  if c:\n      d = 2\n  ```\n"
    )
    found = [(block.line, block.code, block.not_run) for block in blocks(file)]
    assert found == [
        (2, "a = 1", None),
        (7, "await b", "it never ends"),
        (14, "c = 1\nif c:\n    d = 2", None),
    ]
