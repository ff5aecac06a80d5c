"""Every field of the dataclasses is a setting. A new field fails here until it is complete."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import get_type_hints

import pytest

from headway import Headway, WorkerOptions
from headway.core.config import AppOptions, WorkerSettings
from headway.settings.fields import SECTIONS, fields
from headway.settings.kinds import kind_of

_GUIDE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_every_field_of_every_section_can_be_configured_and_its_default_fits_it() -> None:
    for options in SECTIONS.values():
        assert options()
    for key, field in fields().items():
        assert field.kind.fits(field.default), key
    keys = {f"worker.{name}" for name in get_type_hints(WorkerOptions)}
    assert keys == {key for key in fields() if key.startswith("worker.")}


def test_a_field_of_a_type_that_nobody_reads_is_a_defect_that_is_named() -> None:
    with pytest.raises(TypeError, match=r"a setting cannot have type .*bytes.*settings/kinds\.py"):
        kind_of(bytes)


def test_variables_are_named_after_keys() -> None:
    assert fields()["worker.concurrency"].variable == "HEADWAY_WORKER__CONCURRENCY"
    assert fields()["pool_size"].variable == "HEADWAY_POOL_SIZE"
    assert len({field.variable for field in fields().values()}) == len(fields())


def test_the_keywords_of_a_worker_are_the_fields_of_its_options() -> None:
    assert get_type_hints(WorkerSettings) == get_type_hints(WorkerOptions), (
        "add the new field of WorkerOptions to the TypedDict WorkerSettings, with the same type"
    )


def test_what_an_app_is_made_with_is_what_can_be_configured_for_it() -> None:
    parameters = set(inspect.signature(Headway.__init__).parameters) - {"self"}
    named = {"dsn" if name == "database_url" else name for name in get_type_hints(AppOptions)}
    assert parameters == named | {"retention", "worker"}, (
        "a parameter of Headway() is a field of AppOptions (core/config.py), and the other way round"
    )
    for name, parameter in inspect.signature(Headway.__init__).parameters.items():
        assert name == "self" or parameter.default is None, (
            f"{name} of Headway() must be None if it is not given: its default is in AppOptions"
        )


@pytest.mark.parametrize("key", fields())
def test_the_guide_names_every_setting_and_its_default(key: str) -> None:
    rows = [
        line for line in _GUIDE.read_text("utf-8").splitlines() if line.startswith(f"| `{key}`")
    ]
    assert len(rows) == 1, f"add {key} to the table of {_GUIDE.name}"
    default = rows[0].split(" | ")[2].strip("` ")
    value = fields()[key].default
    if isinstance(value, bool):
        value = str(value).lower()
    assert default == {"{}": "none named", "None": "none"}.get(str(value), str(value))
