"""The contract of `django.tasks` backends, as Django's tests of its own two backends have it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest import mock
from uuid import uuid4

from django.db import transaction
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone

from headway.django import hw
from headway.django.backend import HeadwayBackend
from headway.django.results import Status, exceptions, library, signals
from tests.django.project import tasks

default: Any = library.default_task_backend
InvalidTask: Any = getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError


def run(result: Any, attempts: int = 1) -> Any:
    """Run what is due, and return the result as it is then."""
    for _ in range(attempts):
        hw.run_until_idle_sync(queues=["default", "special"], concurrency=1)
    result.refresh()
    return result


class Waiting(TestCase):
    """Before a worker runs the task, in a transaction that is never committed."""

    def test_an_enqueued_task_is_ready(self) -> None:
        for task in (tasks.noop, tasks.noop_async):
            with self.subTest(task=task.name):
                result = task.enqueue(1, two=3)
                self.assertEqual(result.status, Status.READY)
                self.assertFalse(result.is_finished)
                self.assertEqual((result.args, result.kwargs), ([1], {"two": 3}))
                self.assertEqual((result.attempts, result.backend), (0, "default"))
                self.assertEqual((result.started_at, result.finished_at), (None, None))
                with self.assertRaisesMessage(ValueError, "Task has not finished yet"):
                    _ = result.return_value
                found = task.get_result(result.id)
                self.assertEqual((found.id, found.status), (result.id, Status.READY))
                self.assertEqual((found.task, found.args, found.kwargs), (task, [1], {"two": 3}))

    def test_options_of_a_call_are_kept(self) -> None:
        later = timezone.now() + timedelta(hours=1)
        task = tasks.noop.using(priority=50, queue_name="special", run_after=later)
        found = default.get_result(task.enqueue().id)
        self.assertEqual(found.task, task)
        self.assertEqual(found.status, Status.READY)

    def test_it_sends_djangos_signal(self) -> None:
        seen: list[Any] = []

        def note(sender: Any, task_result: Any, **_: Any) -> None:
            seen.append((sender, task_result.id))

        signals.task_enqueued.connect(note)
        self.addCleanup(signals.task_enqueued.disconnect, note)
        result = tasks.noop.enqueue()
        self.assertEqual(seen, [(HeadwayBackend, result.id)])

    def test_a_result_that_does_not_exist(self) -> None:
        no_task = tasks.in_thread.using(conn="default").enqueue_sync()
        for missing in (str(uuid4()), "123", str(no_task.id)):
            with self.assertRaises(exceptions.TaskResultDoesNotExist):
                default.get_result(missing)

    def test_a_result_of_another_task(self) -> None:
        result = tasks.noop.enqueue()
        with self.assertRaises(exceptions.TaskResultMismatch):
            tasks.answer.get_result(result.id)

    def test_arguments_are_plain_json(self) -> None:
        with self.assertRaises(TypeError):
            tasks.noop.enqueue(timezone.now())

    def test_it_is_validated_again_when_it_is_enqueued(self) -> None:
        task = tasks.noop.using(queue_name="special")
        only = {"BACKEND": "headway.django.backend.HeadwayBackend", "QUEUES": ["default"]}
        with override_settings(TASKS={"default": only}), self.assertRaises(InvalidTask):
            task.enqueue()

    def test_what_it_supports(self) -> None:
        self.assertTrue(default.supports_defer and default.supports_async_task)
        self.assertTrue(default.supports_get_result and default.supports_priority)
        self.assertEqual(list(default.check()), [])

    def test_a_backend_without_its_app_is_reported(self) -> None:
        with mock.patch("headway.django.backend.apps.is_installed", return_value=False):
            self.assertEqual([each.id for each in default.check()], ["headway.E001"])


class Working(TransactionTestCase):
    """With commits, and a worker."""

    def test_a_task_runs(self) -> None:
        for task in (tasks.noop, tasks.noop_async):
            with self.subTest(task=task.name):
                result = run(task.enqueue(1, two=3))
                self.assertEqual((result.status, result.attempts), (Status.SUCCESSFUL, 1))
                self.assertIsNone(result.return_value)
                self.assertLessEqual(result.enqueued_at, result.started_at)
                self.assertLessEqual(result.started_at, result.finished_at)
                self.assertEqual(result.last_attempted_at, result.started_at)

    def test_its_value_is_kept(self) -> None:
        self.assertEqual(run(tasks.answer.enqueue()).return_value, 42)

    def test_a_failure_is_kept(self) -> None:
        cases = ((tasks.fails, ValueError), (tasks.exits, SystemExit))
        for task, error in (*cases, (tasks.complex_answer, TypeError)):
            with self.subTest(task=task.name), self.assertLogs(library.__name__, "ERROR") as logs:
                result = run(task.enqueue())
                self.assertEqual((result.status, result.attempts), (Status.FAILED, 1))
                self.assertEqual([each.exception_class for each in result.errors], [error])
                self.assertIn(f"{error.__name__}: ", result.errors[0].traceback)
                with self.assertRaisesMessage(ValueError, "Task failed"):
                    _ = result.return_value
                self.assertEqual(len(logs.output), 1)
                self.assertIn(f"{error.__name__}: ", logs.output[0])

    def test_it_is_logged(self) -> None:
        for task, state in ((tasks.noop, "SUCCESSFUL"), (tasks.noop_async, "SUCCESSFUL")):
            with self.assertLogs(library.__name__, "DEBUG") as logs:
                result = run(task.enqueue())
            self.assertEqual(len(logs.output), 3)
            for line, word in zip(logs.output, ("enqueued", "RUNNING", state), strict=True):
                self.assertIn(word, line)
                self.assertIn(result.id, line)
                self.assertNotIn("None", line)

    def test_the_context_counts_attempts(self) -> None:
        result = tasks.second_time.enqueue("x")
        with self.assertNoLogs(library.__name__, "ERROR"):
            run(result)
            self.assertEqual(result.status, Status.READY)
            self.assertEqual([each.exception_class for each in result.errors], [ValueError])
            hw.job(result.id).retry_sync()
            run(result)
        self.assertEqual(result.return_value, [2, result.id, "x"])
        self.assertEqual(result.attempts, 2)

    def test_a_job_exists_if_and_only_if_its_transaction_commits(self) -> None:
        with transaction.atomic():
            kept = tasks.answer.enqueue()
            self.assertEqual(hw.run_until_idle_sync().total, 0)
        try:
            with transaction.atomic():
                gone = tasks.answer.enqueue()
                raise KeyError
        except KeyError:
            pass
        self.assertEqual(run(kept).return_value, 42)
        with self.assertRaises(exceptions.TaskResultDoesNotExist):
            default.get_result(gone.id)

    async def test_the_same_from_async_code(self) -> None:
        result = await tasks.answer.aenqueue()
        self.assertEqual(result.status, Status.READY)
        await hw.run_until_idle(queues=["default"])
        await hw.close()
        await result.arefresh()
        self.assertEqual(result.return_value, 42)
        self.assertEqual((await tasks.answer.aget_result(result.id)).return_value, 42)
