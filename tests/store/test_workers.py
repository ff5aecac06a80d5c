"""Registering, heartbeats, the leader, retiring and cleaning up (store/statements/fleet.py)."""

from __future__ import annotations

import threading
from datetime import timedelta

from headway.store.statements import fleet, inspect, jobs
from headway.store.statements.fleet import Beat
from tests.store.store import NOW, Store, engine_connection
from tests.support import DEADLINE


def _beat(store: Store, worker: int, lease: float = 30) -> bool | None:
    """Return whether this worker is the leader. None if the heartbeat came too late."""
    beat = store.run(fleet.heartbeat(worker, lease, store.now))
    return None if beat is None else beat.leads


def _worker(store: Store, worker: int) -> dict[str, object]:
    return store.one("select * from worker where id = %s", worker)


def test_a_registered_worker_lives_for_one_lease(store: Store) -> None:
    statement = fleet.register("box:77", "1.2.3", 40, ["a", "b"], ["t"], 12.5, store.now)
    worker = store.run(statement)
    row = _worker(store, worker)
    assert row == {
        "id": worker,
        "name": "box:77",
        "version": "1.2.3",
        "slots": 40,
        "queues": ["a", "b"],
        "tasks": ["t"],
        "started_at": NOW,
        "seen_at": NOW,
        "expires_at": NOW + timedelta(seconds=12.5),
        "survived": False,
        "listening": None,
        "trouble": None,
        "schedules": [],
    }


def test_a_worker_id_is_never_used_again(store: Store) -> None:
    first = store.register()
    store.rows("delete from worker returning 1")
    assert store.register() > first


def test_a_heartbeat_extends_the_lease_from_its_own_moment(store: Store, worker: int) -> None:
    store.advance(29)
    assert _beat(store, worker) is True
    row = _worker(store, worker)
    assert (row["seen_at"], row["expires_at"]) == (store.now, store.now + timedelta(seconds=30))
    assert row["started_at"] == NOW


def test_a_late_heartbeat_is_refused_and_changes_nothing(store: Store, worker: int) -> None:
    store.advance(30)
    before = store.everything()
    assert _beat(store, worker) is None
    assert store.everything() == before


def test_an_unknown_workers_heartbeat_is_refused(store: Store) -> None:
    before = store.everything()
    assert _beat(store, 10**9) is None
    assert store.everything() == before


def test_only_one_worker_has_the_duty(store: Store) -> None:
    first, second = store.register(), store.register()
    assert _beat(store, first) is True
    assert _beat(store, second) is False
    store.advance(10)
    assert _beat(store, second) is False
    assert _beat(store, first) is True
    assert store.count("leader") == 1


def test_the_duty_passes_on_when_its_holder_is_lost(store: Store) -> None:
    first, second = store.register(lease=30), store.register(lease=300)
    assert _beat(store, first) is True
    store.advance(29.9)
    assert _beat(store, second, 300) is False
    store.advance(0.1)
    assert _beat(store, second, 300) is True
    assert _beat(store, first) is None, "it comes back too late, and is not the leader either"
    assert store.one("select worker_id from leader")["worker_id"] == second


def test_a_heartbeat_says_how_long_the_duty_was_taken_for(store: Store) -> None:
    first, second = store.register(lease=30), store.register(lease=300)
    taken = store.run(fleet.heartbeat(first, 30, store.now))
    assert taken is not None
    assert taken == Beat(True, None, False, taken.server)
    store.advance(10)
    assert store.run(fleet.heartbeat(second, 300, store.now)) == Beat(
        False, 20.0, False, taken.server
    ), "and it is the same server"


def test_the_duty_is_free_when_its_holder_retires(store: Store) -> None:
    first, second = store.register(), store.register()
    _beat(store, first)
    assert store.run(fleet.retire(first, store.now)) is True
    assert store.count("leader") == 0
    assert _beat(store, second) is True


def test_retiring_leaves_another_leader_alone(store: Store) -> None:
    first, second = store.register(), store.register()
    _beat(store, first)
    store.run(fleet.retire(second, store.now))
    assert store.one("select worker_id from leader")["worker_id"] == first
    assert store.run(fleet.retire(10**9, store.now)) is False


def test_a_heartbeat_says_whether_the_worker_was_asked_to_drain(store: Store, worker: int) -> None:
    other = store.register()
    with store.listening() as heard:
        assert store.run(fleet.drain(store.target, worker, store.now)) is True
        assert heard() == [f"drain {worker}"]
        assert store.run(fleet.drain(store.quiet, worker, store.now)) is True
        assert heard() == []
    for id_, draining in ((worker, True), (other, False)):
        beat = store.run(fleet.heartbeat(id_, 30, store.now))
        assert beat is not None
        assert beat.draining is draining
    shown = {row.id: row.draining for row in store.run(inspect.workers(store.now))}
    assert shown == {worker: True, other: False}


def test_only_a_live_worker_is_asked_to_drain(store: Store, worker: int) -> None:
    store.advance(30)
    before = store.everything()
    with store.listening() as heard:
        assert store.run(fleet.drain(store.target, worker, store.now)) is False
        assert store.run(fleet.drain(store.target, 10**9, store.now)) is False
        assert heard() == []
    assert store.everything() == before


def test_a_heartbeat_notes_whether_the_worker_listens(store: Store, worker: int) -> None:
    for said, noted in ((None, None), (True, True), (None, True), (False, False)):
        store.run(fleet.heartbeat(worker, 30, store.now, listening=said))
        assert _worker(store, worker)["listening"] is noted


def test_of_many_heartbeats_at_the_same_time_one_takes_the_duty(store: Store) -> None:
    workers = [store.register() for _ in range(8)]
    gate = threading.Barrier(len(workers))
    answers: list[Beat | None] = []

    def beat(worker: int) -> None:
        with engine_connection(store.dsn) as conn:
            gate.wait(DEADLINE)
            answers.append(store.run(fleet.heartbeat(worker, 30, store.now), conn))

    threads = [threading.Thread(target=beat, args=[worker]) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert len(answers) == 8
    assert [beat for beat in answers if beat is None] == []
    assert sum(beat.leads for beat in answers if beat) == 1


def test_g11_a_retired_worker_holds_nothing_any_more(store: Store, worker: int) -> None:
    store.enqueue()
    store.run(fleet.retire(worker, store.now))
    assert store.claim(worker) == []
    assert _beat(store, worker) is None


def test_a_worker_is_forgotten_an_hour_after_it_was_lost(store: Store, worker: int) -> None:
    store.advance(30 + 3599)
    assert store.run(fleet.clean_up(store.now)) == 0
    store.advance(1)
    assert store.run(fleet.clean_up(store.now)) == 1
    assert store.count("worker") == 0


def test_a_lost_worker_that_still_holds_jobs_is_not_forgotten(store: Store, worker: int) -> None:
    """Its row is how the rescue finds them."""
    claim = store.held(worker)
    store.advance(30 + 7200)
    assert store.run(fleet.clean_up(store.now)) == 0
    assert store.rescue(10) == (1, 0)
    assert store.run(fleet.clean_up(store.now)) == 1
    assert store.states(claim.id) == ["scheduled"]


def test_a_wait_is_forgotten_after_a_day(store: Store) -> None:
    job_id = store.enqueue()
    store.run(jobs.await_end(job_id, store.now))
    store.advance(86_399)
    store.run(fleet.clean_up(store.now))
    assert store.count("awaited") == 1
    store.advance(1)
    store.run(fleet.clean_up(store.now))
    assert store.count("awaited") == 0


def test_the_fleet_shows_which_workers_live_and_which_one_leads(store: Store) -> None:
    alive, lost = store.register(lease=100), store.register(lease=10)
    _beat(store, alive, 100)
    store.advance(20)
    shown = {row.id: row for row in store.run(inspect.workers(store.now))}
    assert (shown[alive].alive, shown[alive].leader, shown[alive].silent_for) == (True, True, 20.0)
    assert (shown[lost].alive, shown[lost].leader, shown[lost].silent_for) == (False, False, 20.0)
    assert shown[alive].queues == ["q"]
    assert shown[alive].tasks == ["resize"]


def test_g8_a_task_that_no_live_worker_knows_shows_up(store: Store) -> None:
    store.register(lease=100, tasks=["resize"])
    store.register(lease=1, tasks=["gone"])
    for task in ("resize", "gone", "never", "never"):
        store.enqueue(task=task)
    store.enqueue(task="resize", queue="unserved")
    store.enqueue(task="later", delay=60.0)
    store.advance(10)
    stranded = store.run(inspect.stranded(store.now))
    assert stranded == {"gone": 1, "never": 2, "resize": 1}
