"""`headway worker --log-config`: logging by a file, in the worker and its children."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from headway import Headway
from tests.cli.conftest import APP, Command, Spawn

_FORMAT = "OWN|%(levelname)s|%(task)s|%(message)s"
_DICTIONARY = {
    "formatters": {"own": {"format": _FORMAT, "defaults": {"task": "-"}}},
    "handlers": {"err": {"class": "logging.StreamHandler", "formatter": "own"}},
    "root": {"level": "WARNING", "handlers": ["err"]},
}
_TOML = f"""
root = {{level = "WARNING", handlers = ["err"]}}
[formatters.own]
format = "{_FORMAT}"
defaults = {{task = "-"}}
[handlers.err]
class = "logging.StreamHandler"
formatter = "own"
"""
_INI = f"""
[loggers]
keys=root
[handlers]
keys=err
[formatters]
keys=own
[logger_root]
level=WARNING
handlers=err
[handler_err]
class=StreamHandler
formatter=own
args=()
[formatter_own]
format={_FORMAT}
"""
FILES = {"log.json": json.dumps({"version": 1, **_DICTIONARY}), "log.toml": _TOML, "log.ini": _INI}


@pytest.mark.parametrize("name", FILES)
def test_the_worker_and_its_children_log_as_the_file_says(
    spawn_worker: Spawn, tasks: Headway, tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    file.write_text(FILES[name])
    worker = spawn_worker(APP, "--log-config", str(file))
    made = [tasks.tasks["fail"].enqueue_sync("because"), tasks.tasks["square"].enqueue_sync(3)]
    assert made[1].result_sync(timeout="60s") == 9
    with pytest.raises(Exception, match="because"):
        made[0].result_sync(timeout="60s")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    lines = worker.output().splitlines()
    assert "OWN|WARNING|square|squaring 3" in lines
    assert any(line.startswith(f"OWN|ERROR|fail|fail {made[0].id} failed") for line in lines)
    assert not [line for line in lines if "INFO" in line]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.yaml", "version: 1"),
        ("log.json", "{"),
        ("log.json", "[1]"),
        ("log.toml", "a ="),
        ("log.toml", '[handlers.x]\nclass = "no.such.Handler"\n'),
        ("log.ini", "nothing"),
    ],
)
def test_a_file_that_is_no_log_configuration_is_refused(
    headway: Command, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    assert name in headway("worker", APP, "--log-config", str(tmp_path / name), code=2).stderr


def test_the_option_goes_before_the_configuration_and_excludes_level_and_format(
    headway: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = str(tmp_path / "missing.json")
    headway("worker", APP, "--log-config", missing, "--log-level", "info", code=2)
    monkeypatch.setenv("HEADWAY_LOG__CONFIG", missing)
    assert "missing.json" in headway("worker", APP, code=2).stderr
    # With a level on the command line the file is not read.
    assert "missing.json" not in headway("worker", "no.such", "--log-level", "info", code=2).stderr
