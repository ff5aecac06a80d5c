"""Django's test classes, in a project of their own: jobs in its test database, and in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

_TESTS = """
import django
import pytest
from django.conf import settings

settings.configure(
    DATABASES={{"default": {database!r}}}, USE_TZ=True, INSTALLED_APPS=[], LOGGING_CONFIG=None
)
django.setup()

from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase

from headway import Headway

hw = Headway("postgresql://nobody@127.0.0.1:1/production")


def rows():
    with connection.cursor() as cursor:
        cursor.execute("select n from seen")
        return [n for n, in cursor.fetchall()]


@hw.task
def note(n: int) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("insert into seen select count(*) + %s from seen", [n])
    finally:
        if not connection.in_atomic_block:
            connection.close()


class Committed(TransactionTestCase):
    @pytest.fixture(autouse=True)
    def _jobs(self, headway):
        self.jobs = headway

    def test_a_worker_runs_what_was_committed(self):
        with connection.cursor() as cursor:
            cursor.execute("create table seen (n integer)")
        try:
            with transaction.atomic():
                note.using(conn="default").enqueue_sync(1)
                self.jobs.assert_not_enqueued(note)
            self.jobs.assert_enqueued(note, n=1)
            self.jobs.run_until_idle_sync()
            self.assertEqual(rows(), [1])
        finally:
            with connection.cursor() as cursor:
                cursor.execute("drop table seen")


class Uncommitted(TestCase):
    @pytest.fixture(autouse=True)
    def _jobs(self, headway):
        self.jobs = headway

    def test_the_test_sees_jobs_of_its_transaction(self):
        note.using(conn="default").enqueue_sync(1)
        self.jobs.assert_enqueued(note, n=1, conn="default")
        self.jobs.assert_not_enqueued(note)
        self.jobs.run_until_idle_sync()

    def test_a_rollback_takes_jobs_back(self):
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            note.using(conn="default").enqueue_sync(1)
            1 / 0
        self.jobs.assert_not_enqueued(note, conn="default")


class InMemory(TestCase):
    @pytest.fixture(autouse=True)
    def _jobs(self, headway_inline):
        self.jobs = headway_inline

    def test_handlers_run_inside_the_transaction_of_the_test(self):
        with connection.cursor() as cursor:
            cursor.execute("create table seen (n integer)")
            cursor.execute("insert into seen values (5)")
        note.using(conn="default").enqueue_sync(1)
        self.jobs.run_until_idle_sync()
        self.assertEqual(rows(), [5, 2])
"""


def test_the_test_classes_of_django_work(tmp_path: Path, dsn: str) -> None:
    given = {name.upper(): str(value) for name, value in conninfo_to_dict(dsn).items()}
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": given["DBNAME"],
        **{name: given[name] for name in ("HOST", "PORT", "USER", "PASSWORD") if name in given},
    }
    (tmp_path / "test_jobs.py").write_text(_TESTS.format(database=database))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=kept | {"HEADWAY_TEST_DSN": dsn},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.strip().splitlines()[-1].startswith("4 passed"), done.stdout
