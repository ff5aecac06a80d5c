from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.sql.hand import Hand


def test_a_claim_says_what_to_run(hand: Hand) -> None:
    made = hand.enqueue(
        "greet",
        {"name": "Ada"},
        queue="mail",
        priority=2,
        max_attempts=4,
        headers={"tenant": "acme"},
    )
    (claimed,) = hand.claim("mail")
    assert claimed.pop("claim") >> 32 == 1
    assert [claimed] == [
        {
            "id": made,
            "task": "greet",
            "step": "",
            "attempt": 1,
            "max_attempts": 4,
            "priority": 2,
            "input": {"name": "Ada"},
            "headers": {"tenant": "acme"},
            "carried": None,
            "key": None,
        }
    ]
    assert hand.state(made) == "running"


def test_the_highest_priority_comes_first_and_then_the_oldest(hand: Hand) -> None:
    made = [hand.enqueue(priority=priority) for priority in (0, 5, 0, -3, 5)]
    hand.enqueue(queue="elsewhere", priority=9)
    expected = [made[index] for index in (1, 4, 0, 2, 3)]
    assert [claimed["id"] for claimed in hand.claim("default", 3)] == expected[:3]
    assert [claimed["id"] for claimed in hand.claim("default", 9)] == expected[3:]


def test_only_the_tasks_that_are_asked_for_are_claimed(hand: Hand) -> None:
    hand.enqueue("a")
    step = hand.enqueue("order", step="ship")
    assert hand.claim(tasks=["b"]) == []
    (claimed,) = hand.claim(tasks=["b", "order/ship"])
    assert claimed["id"] == step


def test_what_cannot_run_is_not_claimed(hand: Hand) -> None:
    hand.enqueue(delay="1 hour")
    expired = hand.enqueue(ttl="1 hour")
    hand.rows("update job set expires_at = now() where id = %s", expired)
    hand.engine_lives()  # or the claim would end it as expired
    assert hand.claim("default", 10) == []
    hand.enqueue(queue="mail")
    hand.call("pause", "mail")
    assert hand.claim("mail") == []
    hand.call("resume", "mail")
    assert len(hand.claim("mail")) == 1


def test_a_consumer_is_registered_with_its_first_job_and_forgotten_with_its_last(
    hand: Hand,
) -> None:
    assert hand.claim() == []
    hand.enqueue("a")
    assert hand.claim(tasks=["b"]) == []
    assert hand.rows("select id from worker") == []
    hand.enqueue("a")
    first, second = hand.claim("default", 2)
    consumer = hand.row("select * from worker")
    assert consumer["name"].startswith("sql ")
    assert (consumer["queues"], consumer["tasks"]) == (["default"], [])
    assert {hand.job(one["id"])["worker_id"] for one in (first, second)} == {consumer["id"]}
    hand.settle("complete", first)
    assert len(hand.rows("select id from worker")) == 1
    hand.settle("release", second)
    assert hand.rows("select id from worker") == []


@pytest.mark.parametrize(
    "options",
    [
        {"lease": "0 s"},
        {"lease": "2 days"},
        {"count": 0},
        {"count": 10_001},
        {"count": None},
        {"queue": ""},
    ],
)
def test_a_claim_that_makes_no_sense_is_refused(hand: Hand, options: dict[str, Any]) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        hand.claim(**options)
    assert refused.value.diag.message_hint


def test_two_consumers_never_get_the_same_job(hand: Hand, other: Hand) -> None:
    made = {hand.enqueue() for _ in range(4)}
    with hand.conn.transaction():
        mine = {claimed["id"] for claimed in hand.claim("default", 2)}
        others = {claimed["id"] for claimed in other.claim("default", 9)}
    assert mine | others == made
    assert len(mine) == len(others) == 2


def test_g1_a_claim_that_is_rolled_back_never_was(hand: Hand) -> None:
    made = hand.enqueue()
    with hand.conn.transaction(force_rollback=True):
        assert hand.settle("complete", hand.claim()[0]) is True
    assert (hand.job(made)["state"], hand.job(made)["attempt"]) == ("r", 0)
    assert hand.rows("select id from worker") == []


# -- the lease ------------------------------------------------------------------------------------

_LEFT = "select extract(epoch from expires_at - now())::float from worker"


def test_a_lease_is_extended_and_never_shortened(hand: Hand) -> None:
    claimed = hand.held()
    hand.rows("update worker set expires_at = now() + interval '10 min'")
    assert hand.settle("extend", claimed, "1 hour") is True
    assert hand.value(_LEFT) > 3000
    assert hand.settle("extend", claimed, "5 s") is True
    assert hand.value(_LEFT) > 3000


def test_a_lease_that_ran_out_is_not_extended_and_the_job_goes_to_another(hand: Hand) -> None:
    claimed = hand.held()
    hand.lose_consumers()
    assert hand.settle("extend", claimed, "1 hour") is False
    assert hand.sweep()["rescued"] == 1
    (again,) = hand.claim()
    assert (again["id"], again["claim"] >> 32, again["attempt"]) == (claimed["id"], 2, 2)


def test_a_late_consumer_may_settle_what_nobody_took_from_it(hand: Hand) -> None:
    claimed = hand.held()
    hand.lose_consumers()
    assert hand.settle("complete", claimed) is True
    assert hand.sweep()["rescued"] == 0


def test_g6_a_job_whose_consumers_are_lost_fails_after_its_last_attempt(hand: Hand) -> None:
    claimed = hand.held(max_attempts=1)
    hand.lose_consumers()
    assert hand.sweep()["ended"] == 1
    job = hand.ended(claimed["id"])
    assert (job["state"], job["error"]["type"]) == ("failed", "WorkerLost")


def test_a_worker_of_the_engine_looks_after_its_lease_itself(hand: Hand) -> None:
    claimed = hand.held()
    hand.rows("update worker set version = '1.0'")
    before = hand.everything()
    assert hand.settle("extend", claimed, "1 hour") is False
    assert hand.everything() == before


# -- where no worker of the engine lives ----------------------------------------------------------


def test_a_sweep_does_what_the_fleet_would(hand: Hand) -> None:
    due = hand.enqueue(delay="1 hour")
    hand.rows("update job set run_at = now()")
    keyed = hand.enqueue(concurrency_key="k")
    old = hand.enqueue(ttl="1 hour")
    hand.rows("update job set expires_at = now() where id = %s", old)
    swept = hand.sweep()
    assert swept == {"rescued": 0, "ended": 0, "expired": 1, "promoted": 1, "admitted": 1}
    assert [hand.state(job) for job in (due, keyed, old)] == ["ready", "ready", "expired"]
    assert set(hand.sweep().values()) == {0}


def test_a_sweep_looks_at_every_line_and_passes_no_limit(hand: Hand) -> None:
    hand.rows(
        "select enqueue('greet', concurrency_key => 'k' || key) "
        "from generate_series(1, 600) key, generate_series(1, 2)"
    )
    admitted = [hand.sweep()["admitted"] for _ in range(3)]
    assert sum(admitted) == 600
    assert admitted[-1] == 0
    assert (
        hand.value("select max(n) from (select count(*) n from job where holds group by key) k")
        == 1
    )


def test_a_sweep_leaves_keys_to_the_engine_where_that_lives(hand: Hand) -> None:
    hand.enqueue(concurrency_key="k")
    hand.engine_lives()
    assert hand.sweep()["admitted"] == 0


def test_a_claim_sweeps_where_nobody_else_does(hand: Hand) -> None:
    hand.enqueue(concurrency_key="a")
    assert [claimed["key"] for claimed in hand.claim()] == ["a"]
    hand.enqueue(concurrency_key="b")
    hand.engine_lives()
    hand.rows("select setval('swept', 1)")
    assert hand.claim() == []
    hand.rows("update leader set expires_at = now() - interval '1 s'")
    assert [claimed["key"] for claimed in hand.claim()] == ["b"]


def test_pruning_makes_partitions_and_forgets_the_lost(hand: Hand) -> None:
    hand.rows("insert into unique_period values ('t', 'k', gen_random_uuid(), now())")
    hand.rows("select prune()")
    assert hand.rows("select key from unique_period") == []
    assert hand.value("show lock_timeout") == "0"
