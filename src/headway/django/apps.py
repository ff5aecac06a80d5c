"""The Django app: creates the schema when Django migrates, and imports the tasks of all apps."""

# pyright: basic, reportMissingTypeStubs=false
from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.signals import connection_created
from django.db.models.signals import pre_migrate
from django.utils.module_loading import autodiscover_modules

from headway.app import session_of
from headway.django.app import database, hw
from headway.django.connections import close_kept


class HeadwayConfig(AppConfig):
    """`headway.django` in INSTALLED_APPS."""

    name = "headway.django"
    label = "headway"
    verbose_name = "Headway"

    def ready(self) -> None:
        """Connect to Django's signals, and import the module `tasks` of every app that has one."""
        pre_migrate.connect(_create_schema, sender=self)
        connection_created.connect(_release_database)
        autodiscover_modules("tasks")


def _create_schema(using: str, verbosity: int = 1, **_: Any) -> None:
    """Create or upgrade the schema before the project's own migrations, which may enqueue jobs.

    Django sends this for a test's database as well. A worker of a test may use another one, so nothing
    about the database is remembered.
    """
    if using != database():
        return
    session_of(hw).release()
    applied = hw.migrate_sync()
    session_of(hw).release()
    if verbosity > 0 and applied:
        print(f"Headway's schema {hw.schema}: applied {', '.join(applied)}")


def _release_database(connection: Any, **_: Any) -> None:
    """Close the app's connections when Django is about to create or drop a test's database.

    Django opens a connection to no particular database for that, and PostgreSQL drops no database that
    is in use.
    """
    if connection.alias == NO_DB_ALIAS:
        close_kept()
        session_of(hw).release()
