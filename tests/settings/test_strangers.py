"""S8: a file that another account has planted sets nothing. S31: nor does one that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headway.settings.layers import load
from tests.settings.conftest import Project
from tests.settings.test_files import as_nobody

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes files of others")

_ATTACKER = 12345
_THEIRS = {
    "headway.toml": "database_url = 'postgresql://attacker/jobs'",
    "pyproject.toml": "[tool.headway]\ndatabase_url = 'postgresql://attacker/jobs'",
    ".env": "OTHER=1\nDATABASE_URL=postgresql://attacker/jobs",
}


def _plant(project: Project, name: str, owner: int = _ATTACKER) -> Path:
    path = project.write(name, _THEIRS[name.rpartition("/")[2]])
    os.chown(path, owner, owner)
    return path


@as_root
@pytest.mark.parametrize("name", _THEIRS)
def test_s8_a_file_of_another_account_is_refused(project: Project, name: str) -> None:
    path = _plant(project, name)
    said = project.refusal()
    assert said.startswith(f"{path} belongs to user {_ATTACKER}, but this process runs as 'root'")
    assert f"chown 0 {path}" in said


@as_root
@pytest.mark.parametrize("name", ["headway.toml", "pyproject.toml"])
def test_s8_nor_does_one_in_a_directory_above_count(
    project: Project, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = _plant(project, name)
    (project.directory / "mine").mkdir()
    monkeypatch.chdir("mine")
    assert f"{path} belongs to user {_ATTACKER}" in project.refusal()


@as_root
@pytest.mark.parametrize("name", _THEIRS)
def test_s8_a_link_of_another_account_is_refused(project: Project, name: str) -> None:
    target = project.write("elsewhere", _THEIRS[name])
    link = project.directory / name
    link.symlink_to(target)
    assert project.value("database_url") == "postgresql://attacker/jobs", "one of our own counts"
    os.chown(link, _ATTACKER, _ATTACKER, follow_symlinks=False)
    assert f"{link} belongs to user {_ATTACKER}" in project.refusal()


@pytest.mark.parametrize("name", _THEIRS)
def test_s8_a_file_that_everybody_may_write_to_is_refused(project: Project, name: str) -> None:
    path = project.write(name, _THEIRS[name])
    path.chmod(0o664)
    assert project.value("database_url") == "postgresql://attacker/jobs", "its group may"
    path.chmod(0o666)
    assert f"every account may write to {path}" in project.refusal()


@as_root
@pytest.mark.parametrize("name", _THEIRS)
def test_s8_a_file_of_root_counts_for_everybody(
    project: Project, tmp_path: Path, name: str
) -> None:
    own = [path for path in tmp_path.parents if path.name.startswith(("pytest-", "popen-"))]
    for directory in (project.directory, tmp_path, *own):
        directory.chmod(0o755)
    project.write(name, _THEIRS[name])
    with as_nobody():
        assert project.value("database_url") == "postgresql://attacker/jobs"


@as_root
def test_s8_a_file_that_is_named_counts_and_so_does_the_env_of_its_owner(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root in a container, with the checkout of a user's mounted into it."""
    path = _plant(project, "headway.toml")
    env = project.write(".env", "HEADWAY_SCHEMA=theirs")
    os.chown(env, _ATTACKER, _ATTACKER)
    monkeypatch.setenv("HEADWAY_CONFIG", str(path))
    assert project.value("database_url") == "postgresql://attacker/jobs"
    assert project.value("schema") == "theirs"
    os.chown(env, _ATTACKER + 1, _ATTACKER)
    assert f"{env} belongs to user {_ATTACKER + 1}" in project.refusal()


@as_root
def test_s8_a_foreign_file_that_sets_nothing_is_left_alone(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = project.write("pyproject.toml", "[project]\nname = 'my-headway-tasks'")
    env = _plant(project, ".env")
    os.chown(shared, _ATTACKER, _ATTACKER)
    monkeypatch.setenv("DATABASE_URL", "postgresql://ours/jobs")
    settings = load()
    assert settings["database_url"].value == "postgresql://ours/jobs"
    assert settings.env_file is None
    env.write_text("OTHER=1")
    monkeypatch.delenv("DATABASE_URL")
    assert load()["database_url"].value is None


@pytest.mark.parametrize(
    "text",
    ["x = " + "[" * 100_000, "x = " + "[" * 200 + "]" * 200, ".".join(["a"] * 5_000) + " = 1"],
    ids=["open", "closed", "dotted"],
)
@pytest.mark.parametrize("name", ["headway.toml", "pyproject.toml"])
def test_s31_a_file_that_nests_without_end_is_refused(
    project: Project, name: str, text: str
) -> None:
    path = project.write(name, f"# headway\n{text}\n")
    assert project.refusal().startswith(f"{path} has tables or lists nested more than 20")
