"""purge.sql and transfer.sql: portion by portion through all that waits in a queue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest

from headway.core.info import WaitingCount
from headway.store.scripts import Script
from headway.store.statements import bulk, jobs
from headway.store.statements.bulk import Portion
from tests.store.store import NOW, TASK, Store, ask, engine_connection, new_job

_FIRST = UUID(int=0)


def _play(
    store: Store, script: Script[int], between: Callable[[int], None] = lambda turn: None
) -> int:
    """Plays to its end; `between` is called after every statement."""
    turn = 0
    try:
        statement = next(script)
        while True:
            answer = store.run(statement)
            turn += 1
            between(turn)
            statement = script.send(answer)
    except StopIteration as finished:
        return finished.value


def _purge(store: Store, task: str | None = None, **options) -> int:
    change = bulk.purge(store.target, "q", task, store.now)
    return _play(store, bulk.throughout(change), **options)


def _move(store: Store, to: str = "other", task: str | None = None, **options) -> int:
    change = bulk.transfer(store.target, "q", to, task, store.now)
    return _play(store, bulk.throughout(change), **options)


CHANGES = pytest.mark.parametrize("change", [_purge, _move], ids=["purge", "move"])


def _many(store: Store, number: int, **fields) -> list[UUID]:
    made = [new_job(**fields) for _ in range(number)]
    store.run(jobs.enqueue(store.target, made, store.now))
    return [UUID(job.id) for job in made]


@CHANGES
def test_what_waits_is_meant_and_nothing_else(store: Store, worker: int, change) -> None:
    running = store.held(worker)
    meant = [store.enqueue(), store.enqueue(delay=60.0), store.enqueue(key="k", unique_key="u")]
    others = [store.enqueue(queue="elsewhere"), store.enqueue(queue="Q")]
    before = [store.row(job) for job in (UUID(running.id), *others)]
    assert change(store) == 3
    assert [store.row(job) for job in (UUID(running.id), *others)] == before
    for job in meant:
        row = store.live(job)
        assert row is None or row["queue"] == "other"
    assert store.settle(running, "succeed"), "it goes on, and ends as ever"


@CHANGES
def test_of_one_task_only(store: Store, change) -> None:
    store.enqueue(task="mail")
    store.enqueue(task="mail", step="two")
    kept = [store.enqueue(), store.enqueue(task="mailing")]
    assert change(store, task="mail") == 2
    assert [store.row(job)["queue"] for job in kept] == ["q", "q"]


@CHANGES
def test_what_was_made_after_it_began_stays(store: Store, change) -> None:
    _many(store, 1_500)
    late: list[UUID] = []

    def meanwhile(turn: int) -> None:
        if turn == 1:
            store.advance(1)
            late.append(store.enqueue())

    assert change(store, between=meanwhile) == 1_500
    assert store.row(late[0])["queue"] == "q"


def test_a_portion_is_a_thousand_rows_however_few_of_them_are_meant(store: Store) -> None:
    _many(store, 1_400, queue="elsewhere")
    _many(store, 700)
    change = bulk.purge(store.target, "q", None, store.now)
    first = store.run(change(_FIRST, None))
    assert (first.changed, first.meant, first.before) == (0, 0, NOW)
    second = store.run(change(first.last, first.before))
    assert (second.changed, second.meant) == (600, 600)
    third = store.run(change(second.last, first.before))
    assert (third.changed, third.meant) == (100, 100)
    last = store.run(change(third.last, first.before))
    assert last == Portion(0, 0, None, NOW)


def test_progress_is_told_as_it_goes_on(store: Store) -> None:
    _many(store, 2_300)
    told: list[int] = []
    change = bulk.purge(store.target, "q", None, store.now)
    assert _play(store, bulk.throughout(change, told.append)) == 2_300
    assert told == [1_000, 2_000, 2_300, 2_300]


@CHANGES
def test_what_someone_has_in_hand_is_looked_at_again(store: Store, change) -> None:
    """It is not waited for: a claim may be under way. Put back, it is found by the next pass."""
    held, claimed, free = store.enqueue(), store.enqueue(), store.enqueue()
    with engine_connection(store.dsn) as conn:
        conn.execute("begin")
        lock = f"select id from {store.schema}.job where id = any (%s) for update"
        assert len(conn.execute(lock, [[held, claimed]]).fetchall()) == 2

        def meanwhile(turn: int) -> None:
            if turn == 1:
                conn.execute(
                    f"update {store.schema}.job set state = 'x', worker_id = 1 where id = %s",
                    [claimed],
                )
                conn.execute("commit")

        assert change(store, between=meanwhile) == 2
    row = store.row(claimed)
    assert (row["state"], row["queue"]) == ("x", "q")
    assert all((store.live(job) or {"queue": "other"})["queue"] == "other" for job in (held, free))


@CHANGES
def test_what_stays_in_hand_is_given_up_after_a_few_passes(store: Store, change) -> None:
    kept = store.enqueue()
    store.enqueue()
    with engine_connection(store.dsn) as conn, conn.transaction():
        conn.execute(f"select from {store.schema}.job where id = %s for update", [kept])
        assert change(store) == 1
    assert store.row(kept)["queue"] == "q"


def test_a_purged_job_is_in_the_archive_with_everything_and_can_be_retried(store: Store) -> None:
    fields = {"input": {"x": 1}, "headers": {"h": "v"}, "priority": 4, "unique_key": "u"}
    job = store.enqueue(**fields, key="k", key_limit=2, delay=60.0, ttl=99.0)
    store.advance(5)
    assert _purge(store) == 1
    assert store.live(job) is None
    row = store.archived(job)
    assert row is not None
    assert row == row | {
        "state": "c",
        "queue": "q",
        "input": {"x": 1},
        "headers": {"h": "v"},
        "priority": 4,
        "run_at": NOW + timedelta(seconds=60),
        "finished_at": NOW + timedelta(seconds=5),
        "attempt": 0,
        "worker_id": None,
        "error": {"type": "Cancelled", "message": "its queue was purged while it waited"},
    }
    assert store.enqueue(unique_key="u") != job, "the unique key is free"
    store.cancel(store.rows("select id from job")[0]["id"])
    assert store.run(jobs.revive(store.target, job, None, store.now))
    again = store.row(job)
    assert (again["state"], again["key"], again["unique_key"]) == ("b", "k", "u")


def test_what_is_not_to_be_kept_is_gone(store: Store) -> None:
    store.declare(keep_failed=None)
    store.enqueue()
    assert _purge(store) == 1
    assert (store.count("job"), store.count("archive")) == (0, 0)
    assert store.rows("select queue, outcome::text as o, count from tally") == [
        {"queue": "q", "o": "c", "count": 1}
    ]


def test_a_caller_that_waits_for_a_purged_job_is_notified(store: Store) -> None:
    awaited, other = store.enqueue(), store.enqueue()
    store.run(jobs.await_end(awaited, store.now))
    with store.listening(store.target.done_channel) as heard:
        assert _purge(store) == 2
        assert heard() == [str(awaited)]
    assert store.count("awaited") == 0
    assert store.archived(other) is not None


def test_room_that_a_purge_frees_is_spoken_of(store: Store) -> None:
    holding = store.enqueue(key="k")
    behind = store.enqueue(key="k", queue="elsewhere")
    store.admit("k")
    assert (store.row(holding)["state"], store.row(behind)["state"]) == ("r", "b")
    store.enqueue(key="free")  # holds none: nothing to say of it
    with store.listening() as heard:
        assert _purge(store) == 2
        assert heard() == [f"room {holding}"]
    assert store.admit("k") == 1
    assert store.row(behind)["state"] == "r"


def test_an_ordered_line_goes_on_after_jobs_purged_from_its_middle(
    store: Store, worker: int
) -> None:
    ordered = {"key": "k", "ordered": True}
    first = store.held(worker, **ordered, queue="elsewhere")
    store.enqueue(**ordered)
    last = store.enqueue(**ordered, queue="elsewhere")
    assert _purge(store) == 1
    assert store.admit("k") == 0, "the first still runs"
    store.settle(first, "succeed")
    store.admit("k")
    assert store.row(last)["state"] == "r"


def test_moved_jobs_keep_their_order_state_moment_priority_and_keys(
    store: Store, worker: int
) -> None:
    ahead = store.enqueue(queue="other", priority=0)
    ready = [store.enqueue(priority=priority) for priority in (0, 5, 0, 5, 0)]
    later = store.enqueue(delay=60.0, unique_key="u", ttl=99.0)
    blocked = store.enqueue(key="k", ordered=True)
    before = {job: store.row(job) for job in (*ready, later, blocked)}
    assert _move(store) == 7
    for job, row in before.items():
        moved = store.row(job)
        changed = {"queue", "seq"} if row["state"] == "r" else {"queue"}
        assert {name for name in row if row[name] != moved[name]} == changed
        assert moved["queue"] == "other"
    claims = store.claim(worker, ask("other", 5), ask("other", 0))
    expected = [ready[1], ready[3], ahead, ready[0], ready[2], ready[4]]
    assert [claim.id for claim in claims] == [str(job) for job in expected]


def test_moved_jobs_come_after_the_cursors_of_workers_of_the_other_queue(
    store: Store, worker: int
) -> None:
    job = store.enqueue()
    store.enqueue(queue="other")
    (claim,) = store.claim(worker, ask("other"))
    assert _move(store) == 1
    assert [c.id for c in store.claim(worker, ask("other", cursor=claim.seq))] == [str(job)]


def test_workers_of_the_other_queue_are_notified_once_for_each_portion(store: Store) -> None:
    _many(store, 3, priority=5)
    _many(store, 3)
    store.enqueue(delay=60.0, priority=9)
    store.enqueue(key="k", priority=9)
    with store.listening() as heard:
        assert _move(store, "the other") == 8
        assert heard() == ["ready 5,0 the other"]


def test_many_are_moved_in_the_order_in_which_they_were_made(store: Store, worker: int) -> None:
    made = _many(store, 2_500)
    assert _move(store) == 2_500
    claims = store.claim(worker, ask("other", room=3_000), room=3_000)
    assert [claim.id for claim in claims] == [str(job) for job in made]


def test_what_is_due_later_becomes_ready_in_the_queue_that_it_was_moved_to(store: Store) -> None:
    job = store.enqueue(delay=60.0)
    assert _move(store) == 1
    store.advance(60)
    with store.listening() as heard:
        store.run(jobs.promote(store.target, None, 10, store.now))
        assert heard() == ["ready 0 other"]
    assert store.row(job)["state"] == "r"


def test_nothing_is_said_where_notifications_are_off(store: Store) -> None:
    store.enqueue()
    store.enqueue(key="k")
    store.admit("k")
    with store.listening(store.target.work_channel, store.target.done_channel) as heard:
        for change in (
            bulk.transfer(store.quiet, "q", "other", None, store.now),
            bulk.purge(store.quiet, "other", None, store.now),
        ):
            assert _play(store, bulk.throughout(change)) == 2
        assert heard() == []


def test_the_preview_counts_by_task_and_state_what_would_be_meant(
    store: Store, worker: int
) -> None:
    store.held(worker)
    store.enqueue(task="mail")
    for delay in (None, None, 60.0):
        store.enqueue(delay=delay)
    store.enqueue(key="k")
    store.enqueue(queue="elsewhere")
    found = store.run(bulk.waiting("q", None))
    assert found == [
        WaitingCount("mail", "ready", 1),
        WaitingCount(TASK, "blocked", 1),
        WaitingCount(TASK, "ready", 2),
        WaitingCount(TASK, "scheduled", 1),
    ]
    assert store.run(bulk.waiting("q", "mail")) == found[:1]
    assert store.run(bulk.busy("q")) == 1
    assert _purge(store) == sum(group.count for group in found)
