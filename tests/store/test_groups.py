"""Groups: a follow-up waits until its members have ended, and becomes ready once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg
import pytest

from headway.store.documents import NewJob
from headway.store.statements import bulk, fleet, groups, inspect, jobs
from tests.store.store import TASK, Store, ask, new_job

START = str(UUID(int=0))


def group(store: Store, *members: NewJob, all_but: int = 0, **fields: Any) -> UUID:
    """Make a group of these jobs. Return its follow-up."""
    job = new_job(**{"task": "report"} | fields)
    store.run(groups.enqueue(store.target, members, job, all_but, store.now))
    return UUID(job.id)


def gather(store: Store, *ids: UUID) -> int:
    """How many of these follow-ups were made ready."""
    return store.run(groups.gather(store.target, [str(each) for each in ids], store.now))


def due(store: Store) -> list[str]:
    """The follow-ups at whose members the leader would look."""
    return store.run(groups.gatherable(START, 100)).ids


def end(store: Store, worker: int, count: int, kind: str = "succeed") -> None:
    for claim in store.claim(worker, room=count):
        assert store.settle(claim, kind)  # type: ignore[arg-type]


def test_a_follow_up_is_ready_when_the_last_member_has_ended(store: Store, worker: int) -> None:
    follow_up = group(store, *(new_job() for _ in range(5)), queue="later")
    end(store, worker, 4)
    assert gather(store, follow_up) == 0
    assert store.states(follow_up) == ["waiting"]
    end(store, worker, 1, "fail")
    assert due(store) == [str(follow_up)]
    with store.listening() as heard:
        assert gather(store, follow_up) == 1
        assert heard() == ["ready 0 later"]
    assert store.states(follow_up) == ["ready"]
    assert gather(store, follow_up) == 0
    assert due(store) == []


@pytest.mark.parametrize("all_but", [1, 3])
def test_all_but_some_members_must_have_ended(store: Store, worker: int, all_but: int) -> None:
    follow_up = group(store, *(new_job() for _ in range(5)), all_but=all_but)
    end(store, worker, 4 - all_but)
    assert gather(store, follow_up) == 0
    end(store, worker, 1)
    assert gather(store, follow_up) == 1


def test_a_group_that_is_over_as_it_is_made_has_a_ready_follow_up(store: Store) -> None:
    assert store.states(group(store)) == ["ready"]
    assert store.states(group(store, new_job(), all_but=1)) == ["ready"]
    assert due(store) == []


def test_the_end_of_a_witness_names_the_follow_up(store: Store, worker: int) -> None:
    follow_up = group(store, new_job())
    with store.listening(store.target.work_channel) as heard:
        end(store, worker, 1)
        assert heard() == [f"gather {follow_up}"]
    assert store.count("awaited") == 0


def test_after_a_look_the_ends_of_other_members_notify(store: Store, worker: int) -> None:
    follow_up = group(store, *(new_job() for _ in range(6)))
    for _ in range(5):
        end(store, worker, 1)
        gather(store, follow_up)
    with store.listening(store.target.work_channel) as heard:
        end(store, worker, 1)
        assert heard() == [f"gather {follow_up}"]


def test_a_caller_and_two_groups_await_one_job(store: Store, worker: int) -> None:
    shared = store.enqueue(unique_key="one")
    again = [new_job(unique_key="one", on_taken="skip") for _ in range(2)]
    follow_ups = [group(store, job) for job in again]
    assert all(gather(store, each) == 0 for each in follow_ups)
    store.run(jobs.await_end(shared, store.now))
    with store.listening(store.target.work_channel, store.target.done_channel) as heard:
        end(store, worker, 1)
        assert sorted(heard()) == sorted([str(shared), *(f"gather {each}" for each in follow_ups)])
    assert [gather(store, each) for each in follow_ups] == [1, 1]


def test_a_failed_member_that_runs_again_is_waited_for(store: Store, worker: int) -> None:
    first, second = new_job(), new_job()
    follow_up = group(store, first, second)
    end(store, worker, 1, "fail")
    store.run(jobs.revive(store.target, UUID(first.id), None, store.now))
    end(store, worker, 1)
    assert gather(store, follow_up) == 0
    end(store, worker, 1)
    assert gather(store, follow_up) == 1


def test_members_that_expire_are_purged_or_not_kept_have_ended(store: Store, worker: int) -> None:
    store.declare("brief", keep_succeeded=None)
    brief = new_job(task="brief")
    follow_up = group(store, new_job(ttl=5), new_job(queue="gone"), brief, queue="later")
    (claim,) = store.claim(worker, ask(tasks=["brief"]))
    assert store.settle(claim, "succeed")
    store.advance(6)
    store.run(jobs.expire(store.target, 10, store.now))
    assert gather(store, follow_up) == 0
    store.run(bulk.purge(store.target, "gone", None, store.now)(UUID(int=0), None))
    assert gather(store, follow_up) == 1
    states = [each.state for each in store.run(groups.members(follow_up, 0, 10))]
    assert states == ["expired", "cancelled", None]


def test_a_cancelled_follow_up_never_becomes_ready(store: Store, worker: int) -> None:
    follow_up = group(store, new_job())
    assert store.cancel(follow_up) == "cancelled"
    end(store, worker, 1)
    assert gather(store, follow_up) == 0
    assert store.states(follow_up) == ["cancelled"]
    assert due(store) == []


def test_a_follow_up_that_runs_before_its_group_has_ended_is_left_alone(
    store: Store, worker: int
) -> None:
    """Somebody cancelled it, and retried it."""
    follow_up = group(store, new_job(queue="gone"), task=TASK)
    store.cancel(follow_up)
    store.run(jobs.revive(store.target, follow_up, None, store.now))
    (claim,) = store.claim(worker)
    store.run(bulk.purge(store.target, "gone", None, store.now)(UUID(int=0), None))
    before = store.row(follow_up)
    assert gather(store, follow_up) == 0
    assert store.row(follow_up) == before
    assert due(store) == []
    assert store.settle(claim, "succeed")


@pytest.mark.parametrize("table", ["job where id = %s", "fan_in where job_id = %s"])
def test_g14_a_locked_row_is_left_for_the_next_look(store: Store, worker: int, table: str) -> None:
    follow_up = group(store, new_job())
    end(store, worker, 1)
    with psycopg.connect(store.dsn) as stranger:
        stranger.execute(f"set search_path = {store.schema}")
        stranger.execute(f"select 1 from {table} for update", [follow_up])  # type: ignore[arg-type]
        assert gather(store, follow_up) == 0
        assert due(store) == [str(follow_up)]
    assert gather(store, follow_up) == 1


def test_a_follow_up_with_a_key_joins_its_line_and_a_later_one_is_scheduled(store: Store) -> None:
    keyed = group(store, new_job(queue="gone"), key="k")
    later = group(store, new_job(queue="gone"), delay=60)
    store.run(bulk.purge(store.target, "gone", None, store.now)(UUID(int=0), None))
    assert gather(store, keyed, later) == 2
    assert store.states(keyed) == ["blocked"]
    assert store.states(later) == ["scheduled"]


def test_a_repetition_makes_nothing_and_answers_the_same(store: Store) -> None:
    holder = store.enqueue(unique_key="one")
    members = [new_job(), new_job(unique_key="one", on_taken="skip")]
    make = groups.enqueue(store.target, members, new_job(), 0, store.now)
    answer = store.run(make)
    assert answer == {members[1].id: str(holder)}
    before = store.everything()
    assert store.run(make) == answer
    assert store.everything() == before


def test_g16_a_job_that_exists_cannot_be_made_a_follow_up(store: Store) -> None:
    victim = new_job()
    store.run(jobs.enqueue(store.target, [victim], store.now))
    before = store.everything()
    assert store.run(groups.enqueue(store.target, [new_job()], victim, 0, store.now)) == {}
    assert store.everything() == before


def test_a_group_that_the_library_never_makes_is_refused(store: Store) -> None:
    for all_but, follow_up in ((-1, new_job()), (0, new_job(unique_key="u"))):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            store.run(groups.enqueue(store.target, [new_job()], follow_up, all_but, store.now))


def test_a_group_goes_with_its_follow_up(store: Store, worker: int) -> None:
    store.declare("report", keep_succeeded=None)
    gone, kept = group(store), group(store, new_job(queue="other"))
    (claim,) = store.claim(worker, ask(tasks=["report"]))
    assert store.settle(claim, "succeed")
    store.run(fleet.clean_up(store.now))
    assert store.count("fan_in") == 2
    store.advance(86_401)
    store.run(fleet.clean_up(store.now))
    assert [row["job_id"] for row in store.rows("select job_id from fan_in")] == [kept]
    assert gone != kept


def test_open_groups_are_read_in_pages(store: Store) -> None:
    follow_ups = sorted(group(store, new_job(queue="gone")) for _ in range(3))
    store.run(bulk.purge(store.target, "gone", None, store.now)(UUID(int=0), None))
    first = store.run(groups.gatherable(START, 2))
    assert first.last == str(follow_ups[1])
    second = store.run(groups.gatherable(first.last, 2))
    assert second.last is None
    assert sorted(first.ids + second.ids) == [str(each) for each in follow_ups]


def test_explain_says_whom_a_follow_up_waits_for(store: Store, worker: int) -> None:
    members = [new_job() for _ in range(5)]
    follow_up = group(store, *members)
    end(store, worker, 1)
    (reason,) = store.run(inspect.explain(follow_up))
    assert "1 of 5 jobs have ended" in reason
    assert f"job {members[1].id} (ready)" in reason
