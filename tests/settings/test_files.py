"""headway.toml and pyproject.toml: which one counts, and what is said about one that is wrong."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headway.errors import ConfigError
from headway.settings.layers import load
from tests.settings.conftest import Project

_NOBODY = 65534


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root, who may read everything; as anyone else, as they are."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def public(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project in a directory that everyone may look into."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        monkeypatch.chdir(name)
        yield Project(Path(name).resolve())
        monkeypatch.chdir(project.directory)


def test_the_nearest_file_upwards_counts(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("headway.toml", "pool_size = 1")
    project.write("a/pyproject.toml", "[tool.headway]\npool_size = 2")
    project.write("a/b/pyproject.toml", '[project]\nname = "my-headway-tasks"')
    project.write("a/b/c/other.toml", "")
    monkeypatch.chdir("a/b/c")
    file = project.directory / "a" / "pyproject.toml"
    assert project.origin("pool_size") == f"{file}: tool.headway.pool_size"
    monkeypatch.chdir(project.directory)
    assert project.value("pool_size") == 1


def test_of_two_in_one_directory_its_own_counts_and_says_so(project: Project) -> None:
    own = project.write("headway.toml", "pool_size = 1")
    shared = project.write("pyproject.toml", "[tool.headway]\npool_size = 2\nschema = 'two'")
    settings = load()
    assert (settings["pool_size"].value, settings["schema"].value) == (1, "headway")
    assert settings.notes == (
        f"{own} is used and [tool.headway] of {shared} is ignored; keep only one",
    )


def test_a_variable_names_another_file(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("headway.toml", "pool_size = 1")
    project.write("etc/jobs.toml", "pool_size = 2")
    project.write("etc/.env", "HEADWAY_SCHEMA=adjacent")
    monkeypatch.setenv("HEADWAY_CONFIG", "etc/jobs.toml")
    assert (project.value("pool_size"), project.value("schema")) == (2, "adjacent")
    monkeypatch.setenv("HEADWAY_CONFIG", "/dev/null")
    assert project.value("pool_size") == 10
    monkeypatch.setenv("HEADWAY_CONFIG", "missing.toml")
    missing = project.directory / "missing.toml"
    assert project.refusal().startswith(f"file {missing} does not exist; correct $HEADWAY_CONFIG")
    shared = project.write("pyproject.toml", "")
    monkeypatch.setenv("HEADWAY_CONFIG", str(shared))
    assert f"{str(shared)!r} has no table [tool.headway]" in project.refusal()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("pool_size =", "is not valid TOML: Invalid value (at end of document)"),
        ("a = 1\na = 2\n", "is not valid TOML: Cannot overwrite a value (at line 2"),
        ("poolsize = 3", "unknown setting poolsize (= 3); did you mean pool_size?"),
        ("pool-size = 3", "unknown setting pool-size (= 3); did you mean pool_size?"),
        (
            "dsn = 'postgresql://a:b@c/d'",
            "(= 'postgresql://a:***@c/d'); did you mean database_url?",
        ),
        ("concurrency = 3", "unknown setting concurrency (= 3); did you mean worker.concurrency?"),
        ("[worker]\nschema = 'a'", "unknown setting worker.schema (= 'a'); did you mean schema?"),
        ("[worker]\nlaese = 3", "unknown setting worker.laese (= 3); did you mean worker.lease?"),
        ("[workers]\nlease = 3", "unknown setting workers (= {lease = 3}); did you mean worker?"),
        (
            "xyz = 3",
            "unknown setting xyz (= 3); the settings are database_url, embedded, health, local, log,",
        ),
        (
            "[log]\nxyz = 3",
            "unknown setting log.xyz (= 3); the settings of [log] are config, format, level",
        ),
        ("worker = 3", "worker = 3 is not a table; write it under a line [worker]"),
        ("profiles = 3", "profiles = 3 is not a table"),
        ("[profiles]\na = 3", "profiles.a = 3 is not a table; write it under a line [profiles.a]"),
        ("[profiles.a]\nxyz = 3", "unknown setting profiles.a.xyz (= 3)"),
        (
            "[profiles.a.log]\nlevel = 3",
            "profiles.a.log.level = 3 is invalid: expected 'debug' or",
        ),
        ("pool_size = '3'", "pool_size = '3' is invalid: expected a whole number, like 20"),
        ("pool_size = true", "pool_size = true is invalid: expected a whole number, like 20"),
        ("pool_size = 0", "pool_size = 0 is invalid: pool_size 0 must be at least 1"),
        ("notify = 1", "notify = 1 is invalid: expected true or false"),
        ("schema = 'A b'", "schema = 'A b' is invalid: schema 'A b' must be up to 48 of a-z"),
        ("database_url = 3", "database_url = 3 is invalid: expected text"),
        ("database_url = ''", "database_url = '' is invalid: database_url is empty"),
        (
            "[worker]\nprocesses = -1",
            "worker.processes = -1 is invalid: processes -1 must be 0 (one per core) or more",
        ),
        (
            "[worker]\nlease = 'soon'",
            "worker.lease = 'soon' is invalid: expected a duration, like",
        ),
        (
            "[worker]\nlease = '9ms'",
            "worker.lease = '9ms' is invalid: lease '9ms' must be at least",
        ),
        ("[worker]\nqueues = 3", "worker.queues = 3 is invalid: expected a table of queues"),
        (
            "[worker.queues]\nmail = 'x'",
            "worker.queues = {mail = 'x'} is invalid: expected a table",
        ),
        (
            "[worker.queues]\nmail = 0",
            "worker.queues = {mail = 0} is invalid: queue 'mail' has weight",
        ),
        ("[worker]\norder = 'random'", "worker.order = 'random' is invalid: expected 'fair' or"),
        ("[retention]\nfailed = -1", "retention.failed = -1 is invalid: expected a duration"),
        ("[retention]\nfailed = 1970-01-01", "retention.failed = '1970-01-01' is invalid"),
    ],
)
def test_what_is_wrong_is_named_with_file_key_and_value(
    project: Project, text: str, complaint: str
) -> None:
    file = project.write("headway.toml", text)
    said = project.refusal()
    assert said.startswith(str(file))
    assert complaint in said
    file.unlink()
    if "is not valid TOML" not in complaint:
        lines = [line.replace("[", "[tool.headway.") for line in text.splitlines()]
        first = [] if text.startswith("[") else ["[tool.headway]"]
        shared = project.write("pyproject.toml", "\n".join([*first, *lines]))
        assert project.refusal().startswith(str(shared))


def test_a_file_of_its_own_needs_no_table_of_its_own(project: Project) -> None:
    file = project.write("headway.toml", "[tool.headway]\nschema = 'jobs'")
    said = project.refusal()
    assert said.startswith(f"{file}: unknown setting tool (= ")
    assert said.endswith("; leave out tool.headway here; it belongs in pyproject.toml")


def test_another_s_broken_file_is_no_concern_of_ours(project: Project) -> None:
    shared = project.write("pyproject.toml", "[tool.other\n")
    assert load().file is None
    shared.write_text("[tool.headway\n")
    assert f"{shared} is not valid TOML" in project.refusal()
    shared.write_text("[tool]\nheadway = 3\n")
    assert f"{shared}: tool.headway = 3 is not a table" in project.refusal()


def test_a_file_that_is_not_text_is_refused(project: Project) -> None:
    file = project.write("headway.toml", "")
    file.write_bytes(b"schema = '\xff'")
    assert f"{file} is not UTF-8" in project.refusal()


def test_a_file_that_may_not_be_read_is_refused(public: Project) -> None:
    file = public.write("headway.toml", "pool_size = 3")
    file.chmod(0)
    with as_nobody():
        assert public.refusal().startswith(f"{file} cannot be read (Permission denied); let this")


def test_a_directory_that_may_not_be_read_is_left_out_and_named(
    public: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    public.write("headway.toml", "pool_size = 3")
    closed = public.write("closed/inside/.env", "HEADWAY_SCHEMA=hidden").parents[1]
    monkeypatch.chdir(closed / "inside")
    closed.chmod(0)
    try:
        with as_nobody():
            settings = load()
    finally:
        closed.chmod(0o755)
    assert (settings["pool_size"].value, settings["schema"].value) == (3, "headway")
    assert [note.partition(":")[0] for note in settings.notes] == [
        f"{closed / 'inside'} is skipped",
        f"{closed} is skipped",
    ]


def test_a_dotenv_that_may_not_be_read_is_left_out_and_named(public: Project) -> None:
    """A service is given its variables by systemd, which reads the file for it."""
    public.write("headway.toml", "pool_size = 3")
    file = public.write(".env", "HEADWAY_POOL_SIZE=4")
    file.chmod(0)
    with as_nobody():
        settings = load()
    assert settings["pool_size"].value == 3
    assert settings.notes == (f"{file} is ignored: it cannot be read (Permission denied)",)


def test_a_working_directory_that_is_gone_has_no_file(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = project.directory / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    settings = load()
    assert (settings.file, settings.env_file) == (None, None)


def test_paths_in_a_file_begin_where_it_is(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("headway.toml", "local = 'data/jobs'")
    project.write("a/b.txt", "")
    monkeypatch.chdir("a")
    assert project.value("local") == project.directory / "data/jobs"
    monkeypatch.setenv("HEADWAY_LOCAL", "data/jobs")
    assert project.value("local") == "data/jobs"


def test_a_profile_that_is_not_there_is_named_with_those_that_are(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_ENV", "prodction")
    assert project.refusal().startswith(
        "environment: HEADWAY_ENV = 'prodction' is not a profile: found no headway.toml"
    )
    file = project.write("headway.toml", "")
    assert (
        f"'prodction' is not a profile of {file}; it has no profiles; add a table"
        in project.refusal()
    )
    project.write("headway.toml", "[profiles.test]\n[profiles.production]\npool_size = 3")
    assert (
        "its profiles are production, test; add a table [profiles.prodction]" in project.refusal()
    )
    monkeypatch.setenv("HEADWAY_ENV", "production")
    assert project.value("pool_size") == 3
    assert load().profile == "production"


def test_none_is_written_as_a_word(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("headway.toml", "[retention]\nsucceeded = 'none'\nfailed = 'none'")
    monkeypatch.setenv("HEADWAY_RETENTION__FAILED", "none")
    retention = load().retention
    assert (retention.succeeded_seconds, retention.failed_seconds) == (None, None)
    assert project.origin("retention.failed") == "environment: HEADWAY_RETENTION__FAILED"
    monkeypatch.setenv("HEADWAY_RETENTION__FAILED", "None")
    with pytest.raises(ConfigError, match="HEADWAY_RETENTION__FAILED"):
        load()
