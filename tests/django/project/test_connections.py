"""B4: after a restart of the database every job runs, and the connections of jobs are closed."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import psycopg
from django.db import connection
from django.test import TransactionTestCase

from headway.django import hw
from tests.django.project import tasks


async def _terminate(pid: int) -> bool:
    """End a connection, as a restart of the server does. Return whether it was open."""
    async with await psycopg.AsyncConnection.connect(hw.dsn, autocommit=True) as conn:
        ended = await conn.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where pid = %s and datname = current_database()",
            [pid],
        )
        return bool(await ended.fetchall())


async def _pids(task: Any) -> tuple[int, bool, int]:
    """Run a task twice in one worker, and end the first one's connection in between."""
    async with hw:
        worker = hw.worker(concurrency=1, processes=1, grace="1s")
        running = asyncio.create_task(worker.run())
        try:
            first = await (await task.enqueue()).result(timeout="60s")
            was_open = await _terminate(first)
            return first, was_open, await (await task.enqueue()).result(timeout="60s")
        finally:
            worker.stop()
            await running


class Connections(TransactionTestCase):
    def test_a_job_succeeds_after_the_connection_of_the_last_one_was_cut(self) -> None:
        for task in (tasks.in_thread, tasks.in_process):
            with self.subTest(task=task.name):
                first, was_open, second = asyncio.run(_pids(task))
                self.assertTrue(was_open, "it was kept for the next job")
                self.assertNotEqual(first, second)

    def test_the_connection_of_an_async_job_ends_with_it(self) -> None:
        first, was_open, second = asyncio.run(_pids(tasks.on_loop))
        self.assertFalse(was_open)
        self.assertNotEqual(first, second)

    def test_a_thread_keeps_its_connection_for_as_long_as_django_says(self) -> None:
        for seconds, connections in ((None, 1), (0, 2)):
            with self.subTest(seconds=seconds):
                jobs = [tasks.in_thread.enqueue_sync() for _ in range(2)]
                with mock.patch.dict(connection.settings_dict, {"CONN_MAX_AGE": seconds}):
                    hw.run_until_idle_sync(concurrency=1)
                self.assertEqual(len({job.result_sync() for job in jobs}), connections)
