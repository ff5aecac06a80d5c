"""claim.sql: which jobs a worker gets, in what order, and which it never gets."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from headway.store.rows import Claim
from headway.store.statements import jobs
from tests.store.store import NOW, Store, ask, counted, engine_connection, new_job, shares
from tests.support import DEADLINE


def _ids(claims: list[Claim]) -> list[str]:
    """In the order of their lanes' logs; the statement returns rows in no order."""
    return [claim.id for claim in sorted(claims, key=lambda claim: (-claim.priority, claim.seq))]


def test_a_claim_says_everything_that_running_the_job_takes(store: Store, worker: int) -> None:
    job_id = store.enqueue(
        queue="mail", priority=2, input={"a": 1}, options={"timeout": 9.0}, headers={"h": "v"}
    )
    (claim,) = store.claim(worker, ask("mail", 2))
    row = store.live(job_id)
    assert row is not None
    assert claim == Claim(
        str(job_id),
        row["claim"],
        "resize",
        "",
        1,
        3,
        "mail",
        2,
        row["seq"],
        None,
        '{"a": 1}',
        '{"timeout": 9.0}',
        '{"h": "v"}',
        None,
    )
    assert (row["state"], row["worker_id"], row["claimed_at"]) == ("x", worker, NOW)
    assert (row["claims"], row["attempt"]) == (1, 1)


def test_i3_claim_and_attempt_numbers_grow_with_every_claim(store: Store, worker: int) -> None:
    store.enqueue(max_attempts=9)
    seen = []
    for kind in ("retry", "snooze", "release", "retry"):
        (claim,) = store.claim(worker)
        seen.append((counted(claim), claim.attempt))
        store.settle(claim, kind)
    # A snooze and a release give the attempt back; nothing gives a claim number back.
    assert seen == [(1, 1), (2, 2), (3, 2), (4, 2)]


def test_a_lane_is_claimed_in_the_order_it_was_filled(store: Store, worker: int) -> None:
    made = [str(store.enqueue()) for _ in range(10)]
    first = store.claim(worker, room=4)
    second = store.claim(worker, room=4)
    assert _ids(first) + _ids(second) == made[:8]


def test_priority_is_strict_within_a_queue(store: Store, worker: int) -> None:
    low = [str(store.enqueue(priority=0)) for _ in range(3)]
    high = [str(store.enqueue(priority=7)) for _ in range(3)]
    asks = [ask(priority=7), ask(priority=0)]
    assert _ids(store.claim(worker, *asks, room=4)) == [*high, low[0]]
    late = str(store.enqueue(priority=7))
    assert _ids(store.claim(worker, *asks, room=1)) == [late]
    assert _ids(store.claim(worker, *asks, room=9)) == low[1:]


def test_lanes_of_a_queue_are_served_in_the_order_asked(store: Store, worker: int) -> None:
    low, high = str(store.enqueue(priority=0)), str(store.enqueue(priority=1))
    asks = [ask(priority=0), ask(priority=1)]
    assert _ids(store.claim(worker, *asks, room=1)) == [low]
    assert _ids(store.claim(worker, *asks, room=1)) == [high]


def test_only_jobs_after_the_cursor_are_claimed(store: Store, worker: int) -> None:
    ids = [store.enqueue() for _ in range(3)]
    row = store.live(ids[0])
    assert row is not None
    claims = store.claim(worker, ask(cursor=row["seq"]))
    assert _ids(claims) == [str(job_id) for job_id in ids[1:]]
    assert _ids(store.claim(worker, ask(cursor=0))) == [str(ids[0])]


def test_each_line_has_room_of_its_own(store: Store, worker: int) -> None:
    for name in ("resize", "render"):
        for _ in range(5):
            store.enqueue(task=name)
    asks = [ask(room=2, tasks=["render"]), ask(room=9, tasks=["resize"])]
    taken = [claim.task for claim in store.claim(worker, *asks)]
    assert sorted(taken) == ["render"] * 2 + ["resize"] * 5


def test_a_queues_share_bounds_its_lines_together(store: Store, worker: int) -> None:
    for queue in ("a", "b"):
        for priority in (1, 1, 1, 0, 0, 0):
            store.enqueue(queue=queue, priority=priority)
    asks = [ask(queue, priority, room=2) for queue in ("a", "b") for priority in (1, 0)]
    claims = store.claim(worker, *asks, room=3)
    taken = sorted((claim.queue, claim.priority) for claim in claims)
    assert taken == [("a", 0), ("a", 1), ("a", 1), ("b", 0), ("b", 1), ("b", 1)]
    assert store.one("select count(*) as n from job where state = 'x'")["n"] == 6


@pytest.mark.parametrize("room", [0, 1])
def test_nothing_beyond_the_room_is_touched(store: Store, worker: int, room: int) -> None:
    for _ in range(3):
        store.enqueue()
    before = store.everything()
    claims = store.claim(worker, ask(room=room))
    assert len(claims) == room
    assert len(set(before["job"]) & set(store.everything()["job"])) == 3 - room


def test_g8_a_task_this_worker_does_not_know_is_left_for_one_that_does(
    store: Store, worker: int
) -> None:
    strange = store.enqueue(task="unheard of")
    known = str(store.enqueue())
    assert _ids(store.claim(worker)) == [known]
    assert store.states(strange) == ["ready"]
    knowing = store.register(tasks=["unheard of"])
    assert _ids(store.claim(knowing, ask(tasks=["unheard of"]))) == [str(strange)]


def test_other_queues_and_priorities_are_left_alone(store: Store, worker: int) -> None:
    store.enqueue(queue="other")
    store.enqueue(priority=1)
    before = store.everything()
    assert store.claim(worker, ask("q", 0)) == []
    assert store.everything() == before


def test_nothing_is_claimed_from_a_paused_queue(store: Store, worker: int) -> None:
    store.enqueue(queue="a")
    other = str(store.enqueue(queue="b"))
    store.pause("a")
    assert _ids(store.claim(worker, ask("a"), ask("b"))) == [other]
    store.resume("a")
    assert len(store.claim(worker, ask("a"), ask("b"))) == 1


def test_an_expired_job_is_not_claimed(store: Store) -> None:
    worker = store.register(lease=1_000)
    expired, fresh = store.enqueue(ttl=60.0), store.enqueue(ttl=60.1)
    store.advance(60)
    assert _ids(store.claim(worker)) == [str(fresh)]
    assert store.states(expired) == ["ready"], "the sweep will say that it expired"


def test_a_worker_whose_lease_ran_out_claims_nothing(store: Store) -> None:
    worker = store.register(lease=30)
    store.enqueue()
    store.advance(30)
    assert store.claim(worker) == []
    store.advance(-0.001)
    assert len(store.claim(worker)) == 1


@pytest.mark.parametrize("worker", [0, -1, 10**12])
def test_a_claim_without_a_worker_gets_nothing(store: Store, worker: int) -> None:
    store.enqueue()
    assert store.claim(worker) == []


def test_a_job_locked_by_another_is_passed_over(store: Store, worker: int) -> None:
    held, free = store.enqueue(), store.enqueue()
    with engine_connection(store.dsn) as conn, conn.transaction():
        conn.execute(f"select 1 from {store.schema}.job where id = %s for update", [str(held)])
        assert _ids(store.claim(worker)) == [str(free)]
    assert _ids(store.claim(worker)) == [str(held)]


def test_claimers_at_the_same_time_never_get_the_same_job(store: Store) -> None:
    """Real connections in real threads, all after the same lane until it is empty."""
    made = [new_job() for _ in range(2_000)]
    store.run(jobs.enqueue(store.target, made, store.now))
    workers = [store.register() for _ in range(6)]
    gate = threading.Barrier(len(workers))
    taken: dict[int, list[Claim]] = {worker: [] for worker in workers}

    def work(worker: int) -> None:
        with engine_connection(store.dsn) as conn:
            for _ in range(20):
                gate.wait(DEADLINE)  # each round begins together
                taken[worker] += store.run(jobs.claim(worker, shares([ask()], 17), store.now), conn)

    threads = [threading.Thread(target=work, args=[worker]) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    # A row that another was just claiming is passed over; whatever is left is still there.
    taken[workers[0]] += store.claim(workers[0], ask(room=2_000), room=2_000)
    ids = [claim.id for claims in taken.values() for claim in claims]
    assert sorted(ids) == sorted(job.id for job in made)
    assert all(taken.values()), "they did work side by side"
    held = store.rows("select id, worker_id, claim from job where state = 'x'")
    assert {(row["worker_id"], str(row["id"])) for row in held} == {
        (worker, claim.id) for worker, claims in taken.items() for claim in claims
    }
    assert {row["claim"] >> 32 for row in held} == {1}


def test_a_claim_and_a_cancellation_at_the_same_time_do_not_both_win(
    store: Store, worker: int
) -> None:
    job_id = store.enqueue()
    with engine_connection(store.dsn) as conn, conn.transaction():
        store.run(jobs.claim(worker, shares([ask()], 1), store.now), conn)
        # It does not wait for the claim: the worker that runs the job reads the request.
        assert store.cancel(job_id) == "asked"
    assert store.states(job_id) == ["running"]
    (claim,) = store.run(jobs.orphans(worker, [], 9))
    assert store.run(jobs.held([claim])) == {str(job_id): True}


@pytest.mark.parametrize(
    "control",
    [
        lambda store: store.pause("q"),
        lambda store: store.pause("elsewhere"),
        lambda store: store.pause("resize", "task"),
        lambda store: store.pause("k", "key"),
        lambda store: store.limit("q", concurrency=1),
        lambda store: store.limit("resize", "task", rate="1/s"),
    ],
    ids=["queue", "another queue", "task", "key", "limit of a queue", "rate of a task"],
)
def test_a_plain_claim_takes_nothing_while_a_pause_or_limit_is_in_force(
    store: Store, worker: int, control: Callable[[Store], object]
) -> None:
    store.enqueue()
    plain = jobs.claim_plain(worker, shares([ask()]), store.now)
    control(store)
    assert store.run(plain) is None
    assert [row["state"] for row in store.rows("select state from job")] == ["r"]


def test_a_plain_claim_goes_on_when_a_pause_has_ended_by_itself(store: Store, worker: int) -> None:
    store.enqueue()
    store.pause("q", until=1.0)
    store.advance(1)
    claims = store.run(jobs.claim_plain(worker, shares([ask()]), store.now))
    assert claims is not None
    assert len(claims) == 1
