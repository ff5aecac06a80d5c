"""Finding an app by `module:attribute`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headway.cli.loading import load_app
from headway.errors import ConfigError

_APP = "from headway import Headway\nhw = Headway()\nother = Headway()\nnumber = 7\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of its own as the current one; what is imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def test_the_attribute_is_hw_if_left_out(here: Path) -> None:
    (here / "mine_1.py").write_text(_APP)
    assert load_app("mine_1") is load_app("mine_1:hw")
    assert load_app("mine_1:other") is not load_app("mine_1")


def test_an_attribute_may_be_further_in(here: Path) -> None:
    (here / "mine_2.py").write_text(f"{_APP}\nclass Holder:\n    app = hw\n")
    assert load_app("mine_2:Holder.app") is load_app("mine_2")


def test_another_database_and_schema_can_be_given(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_DATABASE_URL", "postgresql://one/")
    (here / "mine_3.py").write_text(
        'from headway import Headway\nhw = Headway("postgresql://two/")\n'
    )
    app = load_app("mine_3", dsn="postgresql://three/", schema="elsewhere")
    assert app.dsn == "postgresql://three/"
    assert app._session.schema == "elsewhere"


@pytest.mark.parametrize(
    ("spec", "code", "complaint"),
    [
        ("absent", "", "no module 'absent' in "),
        ("mine.py", _APP, "'mine.py' is a path; give the module instead: mine:hw"),
        ("sub/mine", _APP, "give the module instead: sub.mine:hw"),
        ("mine:nope", _APP, "module 'mine' has no attribute 'nope'; use mine:hw or mine:other"),
        (
            "mine",
            "x = 1",
            "module 'mine' has no attribute 'hw'; define an app there: hw = Headway()",
        ),
        (
            "mine:number",
            _APP,
            "mine:number is not a Headway app but a int; use mine:hw or mine:other",
        ),
        ("mine", "import not_installed", "No module named 'not_installed'"),
        ("mine", "\n\n1 / 0", "ZeroDivisionError: division by zero"),
        ("mine", "def (", "SyntaxError"),
    ],
)
def test_what_cannot_be_loaded_says_why(here: Path, spec: str, code: str, complaint: str) -> None:
    (here / "mine.py").write_text(code)
    with pytest.raises(ConfigError) as raised:
        load_app(spec)
    assert complaint in str(raised.value)


def test_an_error_inside_the_module_says_where(here: Path) -> None:
    (here / "mine.py").write_text("\n\n1 / 0")
    with pytest.raises(ConfigError, match=r"mine\.py, line 3"):
        load_app("mine")
