"""Limits of queues and tasks: how many may run at once, as the claim counts them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from headway import Limit
from headway.store.documents import Settled
from headway.store.statements import controls, jobs
from tests.limits.by_hand import alone, claim, declare, reset
from tests.store.store import TASK, Store, ask, engine_connection, shares, verdict


def test_no_more_of_a_queue_are_claimed_than_may_run(store: Store, worker: int) -> None:
    for _ in range(9):
        store.enqueue()
    store.limit("q", concurrency=3)
    first = claim(store, worker)
    assert len(first) == 3
    assert claim(store, store.register()) == []
    store.settle(first[0], "succeed")
    store.settle(first[1], "retry", delay=60.0)
    assert len(claim(store, worker)) == 2
    assert store.one("select count(*) as n from job where state = 'x'")["n"] == 3


def test_no_more_of_a_task_are_claimed_whatever_their_queues(store: Store, worker: int) -> None:
    for queue in ("a", "b"):
        for task in (TASK, TASK, TASK, "render"):
            store.enqueue(queue=queue, task=task)
    store.limit(TASK, "task", concurrency=2)
    everything = ask("a", tasks=[TASK, "render"]), ask("b", tasks=[TASK, "render"])
    taken = claim(store, worker, *everything, alone(queue="a"), queues=(), tasks=[TASK])
    assert Counter(one.task for one in taken) == {"render": 2, TASK: 2}
    assert claim(store, worker, alone(queue="b"), queues=(), tasks=[TASK]) == []


def test_a_step_has_a_limit_of_its_own(store: Store, worker: int) -> None:
    for step in ("one", "two"):
        for _ in range(3):
            store.enqueue(task="flow", step=step)
    store.limit("flow/two", "task", concurrency=1)
    steps = ask(tasks=["flow/one", "flow/two"]), alone("flow/two")
    taken = claim(store, worker, *steps, queues=(), tasks=["flow/two"])
    assert Counter(one.step for one in taken) == {"one": 3, "two": 1}


def test_a_task_with_a_limit_is_claimed_on_a_line_of_its_own_only(
    store: Store, worker: int
) -> None:
    """A worker that has not heard of the limit asks for all its tasks together."""
    store.enqueue()
    store.limit(TASK, "task", concurrency=9)
    assert claim(store, worker, ask(), tasks=[TASK]) == []
    assert claim(store, worker, alone(), tasks=[]) == [], "the limit is not ours"
    assert len(claim(store, worker, alone(), tasks=[TASK])) == 1


def test_both_limits_of_a_job_count(store: Store, worker: int) -> None:
    for queue in ("a", "a", "a", "b", "b", "b"):
        store.enqueue(queue=queue)
    store.limit("a", concurrency=1)
    store.limit(TASK, "task", concurrency=2)
    both: dict[str, Any] = {"queues": ["a", "b"], "tasks": [TASK]}
    assert len(claim(store, worker, alone(queue="a"), **both)) == 1
    assert len(claim(store, worker, alone(queue="b"), **both)) == 1
    assert claim(store, worker, alone(queue="a"), **both) == []


def test_a_limit_that_another_session_has_is_shut_and_no_claim_waits(
    store: Store, worker: int
) -> None:
    """As with a consumer in SQL whose transaction stays open."""
    for queue in ("q", "other"):
        store.enqueue(queue=queue)
    store.limit("q", concurrency=5)
    with engine_connection(store.dsn) as other, other.transaction():
        assert len(store.run(controls.lock(["q"], [], store.now), other)) == 1
        taken = claim(store, worker, ask("q"), ask("other"), queues=["q"])
        assert [one.queue for one in taken] == ["other"]
    assert [one.queue for one in claim(store, worker)] == ["q"]


def test_what_is_locked_in_one_transaction_is_not_ours_in_the_next(
    store: Store, worker: int
) -> None:
    store.enqueue()
    store.limit("q", concurrency=5)
    store.run(controls.lock(["q"], [], store.now))
    assert store.claim(worker) == []


def test_a_claim_after_the_lock_counts_claims_from_before_it(store: Store, worker: int) -> None:
    """The other commits between our beginning and our lock."""
    for _ in range(4):
        store.enqueue()
    store.limit("q", concurrency=3)
    with engine_connection(store.dsn) as other, other.transaction():
        other.execute("select 1")
        assert len(claim(store, worker)) == 3
        store.run(controls.lock(["q"], [], store.now), other)
        late = jobs.claim(worker, shares([ask()]), store.now)
        assert store.run(late, other) == []


def test_a_limit_of_none_shuts_a_queue_or_a_task(store: Store, worker: int) -> None:
    store.enqueue()
    store.limit("q", concurrency=0)
    assert claim(store, worker) == []
    store.limit("q")
    store.limit(TASK, "task", concurrency=0)
    assert claim(store, worker, alone(), tasks=[TASK]) == []
    store.limit(TASK, "task")
    assert len(claim(store, worker)) == 1


def test_lowering_a_limit_stops_no_job_and_raising_it_admits_more(
    store: Store, worker: int
) -> None:
    for _ in range(9):
        store.enqueue()
    store.limit("q", concurrency=4)
    running = claim(store, worker)
    store.limit("q", concurrency=2)
    for one in running[:3]:
        assert claim(store, worker) == []
        store.settle(one, "succeed")
    assert len(claim(store, worker)) == 1
    store.limit("q", concurrency=5)
    assert len(claim(store, worker)) == 3


def test_what_runs_when_a_limit_is_set_counts(store: Store, worker: int) -> None:
    for _ in range(9):
        store.enqueue()
    running = store.claim(worker, room=3)
    store.limit("q", concurrency=4)
    assert len(claim(store, worker)) == 1
    store.limit(TASK, "task", concurrency=4)
    assert claim(store, worker, alone(), tasks=[TASK]) == []
    store.settle(running[0], "succeed")
    assert len(claim(store, worker, alone(), tasks=[TASK])) == 1


def test_what_is_claimed_at_the_very_moment_a_limit_is_set_counts_after_a_sweep(
    store: Store, worker: int
) -> None:
    for _ in range(9):
        store.enqueue()
    with engine_connection(store.dsn) as other, other.transaction():
        claimed = store.run(jobs.claim(worker, shares([ask()], 3), store.now), other)
        store.limit("q", concurrency=4)
    assert len(claimed) == 3
    assert store.run(controls.mark_limited()) == 3
    assert store.run(controls.mark_limited()) == 0
    assert len(claim(store, worker)) == 1


def test_what_runs_counts_when_a_limit_is_taken_back_or_declared(store: Store, worker: int) -> None:
    for _ in range(9):
        store.enqueue()
    declare(store, Limit(concurrency=2))
    store.limit(TASK, "task")
    running = claim(store, worker, ask(room=3))
    assert len(running) == 3
    assert reset(store, TASK, "task") is True
    store.settle(running[0], "succeed")
    assert claim(store, worker, alone(), tasks=[TASK]) == []
    # The next version of the code says less.
    declare(store, Limit(concurrency=1))
    store.settle(running[1], "succeed")
    assert claim(store, worker, alone(), tasks=[TASK]) == []


def test_what_runs_counts_when_code_declares_its_first_limit(store: Store, worker: int) -> None:
    store.enqueue()
    store.enqueue()
    assert len(store.claim(worker, room=1)) == 1
    declare(store, Limit(concurrency=1))
    assert claim(store, worker, alone(), tasks=[TASK]) == []


def test_a_lost_worker_frees_its_room_when_its_jobs_are_taken_back(store: Store) -> None:
    dead = store.register(lease=5)
    for _ in range(6):
        store.enqueue()
    store.limit("q", concurrency=2)
    assert len(claim(store, dead)) == 2
    store.advance(10)
    worker = store.register()
    assert claim(store, worker) == [], "until then they count: their handlers may still run"
    with store.listening() as heard:
        store.rescue(100)
        assert {"open queue q", f"open task {TASK}"} <= set(heard())
    assert len(claim(store, worker)) == 2


def test_a_verdict_and_a_claim_in_one_transaction_hand_the_room_on(
    store: Store, worker: int
) -> None:
    for _ in range(4):
        store.enqueue()
    store.limit("q", concurrency=1)
    (held,) = claim(store, worker)
    for _ in range(3):
        with store.conn.transaction():
            settled = [Settled(held, verdict("succeed"))]
            store.run(jobs.finish(store.target, settled, store.now))
            store.run(controls.lock(["q"], [], store.now))
            (held,) = store.run(jobs.claim(worker, shares([ask()]), store.now))


def test_priority_is_strict_under_a_limit(store: Store, worker: int) -> None:
    for priority in (0, 5, 0, 5, 9):
        store.enqueue(priority=priority)
    store.limit("q", concurrency=2)
    lanes = [ask(priority=priority) for priority in (9, 5, 0)]
    order: list[int] = []
    while taken := claim(store, worker, *lanes):
        order += [one.priority for one in taken]
        for one in taken:
            store.settle(one, "succeed")
    assert order == [9, 5, 5, 0, 0]
