"""A table for the effects of handlers, in a schema of its own: that of Headway is left as it is."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest


@pytest.fixture(autouse=True)
def _effects(db: psycopg.Connection[Any], schema: str) -> None:
    db.execute("drop schema if exists effects cascade")
    db.execute("create schema effects")
    db.execute("create table effects.effect (job_id uuid, attempt integer, note text)")
    db.execute(f"set search_path = {schema}, effects")
