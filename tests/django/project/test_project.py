"""The app in a project: its command, its schema, its admin, and its errors."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import TestCase

from headway.django import hw
from headway.django.models import StoredJob
from headway.errors import InvalidInput
from tests.django.project import tasks


class Project(TestCase):
    def test_tasks_of_apps_are_found_and_the_database_is_that_of_the_test(self) -> None:
        self.assertIn("in_thread", hw.tasks)
        self.assertIn("tests.django.project.tasks.answer", hw.tasks)
        self.assertEqual(hw.place.database, connection.settings_dict["NAME"])
        self.assertEqual(hw.schema, "django_jobs")

    def test_a_model_as_an_argument_is_refused_with_a_hint(self) -> None:
        user = User.objects.create(username="ada")
        for value in (user, [user], User.objects.all()):
            with self.assertRaisesRegex(InvalidInput, "primary key"):
                tasks.takes.using(conn="default").enqueue_sync(value)

    def test_the_command_knows_the_app_and_the_database(self) -> None:
        for words, said in (
            (["migrate"], "schema django_jobs is at version"),
            (["worker-list"], "no workers in the last hour"),
            (["config"], "django_jobs"),
        ):
            with self.subTest(words=words), redirect_stdout(io.StringIO()) as out:
                call_command("headway", *words)
            self.assertIn(said, out.getvalue())

    def test_migrations_of_the_project_are_complete(self) -> None:
        call_command("makemigrations", "--check", "--dry-run", verbosity=0)


class Admin(TestCase):
    def setUp(self) -> None:
        self.client.force_login(User.objects.create_superuser("ada"))
        tasks.in_thread.using(conn="default", queue="mail").enqueue_sync()
        tasks.on_loop.using(conn="default").enqueue_sync()
        self.job = StoredJob.objects.get(queue="mail")
        self.list = "/admin/headway/storedjob/"

    def test_it_lists_and_shows_jobs(self) -> None:
        self.assertContains(self.client.get(self.list), "2 jobs")
        for query in (f"?q={self.job.pk}", "?q=in_thread", "?q=mail", "?state=ready"):
            page = self.client.get(self.list + query)
            self.assertContains(page, str(self.job.pk), msg_prefix=query)
        self.assertNotContains(self.client.get(f"{self.list}?q=on_loop"), str(self.job.pk))
        self.assertContains(self.client.get(f"{self.list}{self.job.pk}/change/"), "in_thread")

    def test_it_changes_nothing(self) -> None:
        page = f"{self.list}{self.job.pk}/change/"
        self.assertEqual(self.client.get(f"{self.list}add/").status_code, 403)
        self.assertEqual(self.client.post(page, {"queue": "x"}).status_code, 403)
        self.assertEqual(
            self.client.post(f"{self.list}{self.job.pk}/delete/", {"post": "yes"}).status_code, 403
        )
        self.assertEqual(StoredJob.objects.filter(queue="mail").count(), 1)

    def test_it_is_for_those_who_may_view_jobs(self) -> None:
        self.client.force_login(User.objects.create_user("bob", is_staff=True))
        self.assertEqual(self.client.get(self.list).status_code, 403)
