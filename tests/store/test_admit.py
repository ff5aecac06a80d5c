"""admit.sql and what belongs to it: room under a key, who gets it, and who says that there is some."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from headway.store.rows import Joined, Lane
from headway.store.statements import fleet, jobs
from tests.store.aside import Aside
from tests.store.store import Store, ask, engine_connection, new_job


def _holding(store: Store) -> list[UUID]:
    """Return the jobs that have room, in the order in which they got it."""
    return [row["id"] for row in store.rows("select id from job where holds order by seq")]


def _cancel(store: Store, job_id: UUID | str) -> None:
    store.cancel(job_id)


def test_a_job_with_a_key_is_made_blocked_and_says_so_once(store: Store) -> None:
    made = [new_job(key=f"k{n}", key_limit=n or None, ordered=n == 1) for n in range(3)]
    with store.listening() as heard:
        store.run(jobs.enqueue(store.target, made, store.now))
        assert heard() == ["blocked"]
    rows = [store.row(job.id) for job in made]
    assert [row["state"] for row in rows] == ["b", "b", "b"]
    assert [row["key_limit"] for row in rows] == [1, 1, 2], "one, unless it says more"
    assert [row["ordered"] for row in rows] == [False, True, False]
    assert [row["holds"] for row in rows] == [False, False, False]


def test_as_many_get_room_as_the_limit_says_first_come_first(store: Store) -> None:
    line = [store.enqueue(key="k", key_limit=3) for _ in range(5)]
    with store.listening() as heard:
        assert store.admit("k") == 3
        assert heard() == ["ready 0 q"]
    assert _holding(store) == line[:3]
    assert [store.states(job_id) for job_id in line[2:4]] == [["ready"], ["blocked"]]
    assert store.admit("k") == 0
    _cancel(store, line[1])
    assert store.admit("k") == 1
    assert store.row(line[3])["holds"]


def test_what_gets_room_goes_to_the_tail_of_its_lane(store: Store) -> None:
    blocked, other = store.enqueue(key="k"), store.enqueue()
    store.admit("k")
    assert store.row(blocked)["seq"] > store.row(other)["seq"], "behind every cursor"


def test_a_line_is_in_order_of_priority_and_then_of_arrival(store: Store) -> None:
    low, high, also_high = (store.enqueue(key="k", priority=p) for p in (0, 7, 7))
    seen = []
    for _ in range(3):
        assert store.admit("k") == 1
        seen += _holding(store)
        _cancel(store, seen[-1])
    assert seen == [high, also_high, low]


def test_an_ordered_line_knows_no_priority(store: Store) -> None:
    line = [store.enqueue(key="k", priority=p, ordered=True) for p in (0, 7, -3)]
    seen = []
    for _ in range(3):
        assert store.admit("k") == 1
        seen += _holding(store)
        _cancel(store, seen[-1])
    assert seen == line


def test_each_counts_by_its_own_limit_and_none_passes_one_that_must_wait(store: Store) -> None:
    """A line whose limits differ: a task's limit was changed while jobs waited."""
    wide = [store.enqueue(key="k", key_limit=5) for _ in range(2)]
    narrow = store.enqueue(key="k", key_limit=1)
    behind = store.enqueue(key="k", key_limit=5)
    assert store.admit("k") == 2
    assert _holding(store) == wide
    assert store.admit("k") == 0, (
        "the narrow one waits for both, and the next one for the narrow one"
    )
    _cancel(store, wide[0])
    assert store.admit("k") == 0
    _cancel(store, wide[1])
    assert store.admit("k") == 1
    assert _holding(store) == [narrow]
    _cancel(store, narrow)
    assert store.admit("k") == 1
    assert _holding(store) == [behind]


def test_a_narrow_one_in_front_lets_only_itself_in(store: Store) -> None:
    narrow = store.enqueue(key="k", key_limit=1)
    store.enqueue(key="k", key_limit=5)
    assert store.admit("k") == 1
    assert _holding(store) == [narrow]
    assert store.admit("k") == 1, "the wide one has room as well"


def test_keys_do_not_hold_each_other_up(store: Store) -> None:
    lines = {key: [store.enqueue(key=key) for _ in range(2)] for key in ("a", "b", "c")}
    assert store.admit("a", "c", "a") == 2
    assert set(_holding(store)) == {lines["a"][0], lines["c"][0]}
    assert store.admit("b", "no such key") == 1


def test_a_locked_job_is_skipped_but_never_in_an_ordered_line(store: Store) -> None:
    for ordered, admitted in ((False, 1), (True, 0)):
        store.clear()
        first = store.enqueue(key="k", ordered=ordered)
        second = store.enqueue(key="k", ordered=ordered)
        with engine_connection(store.dsn) as conn, conn.transaction():
            conn.execute(f"select 1 from {store.schema}.job where id = %s for update", [str(first)])
            assert store.admit("k") == admitted
        assert _holding(store) == ([] if ordered else [second])
        assert store.admit("k") == (1 if ordered else 0)
        assert _holding(store) == ([first] if ordered else [second])


def test_two_admissions_at_the_same_time_do_not_give_the_same_room_twice(store: Store) -> None:
    """The second waits for the first one's transaction, and counts what that did."""
    for _ in range(4):
        store.enqueue(key="k", key_limit=2)
    with engine_connection(store.dsn) as conn, conn.transaction():
        store.run(jobs.lock_keys(["k"]), conn)
        waiting = Aside(store, jobs.lock_keys(["k"])).wait_until_it_waits()
        assert store.run(jobs.admit(store.target, ["k"], store.now), conn).count == 2
    assert waiting.answer() == 1
    assert store.admit("k") == 0


def test_locks_are_taken_in_one_order_however_keys_are_given(store: Store) -> None:
    """By number of the lock: a session that is given the last one first waits without it."""
    order = [
        row["key"]
        for row in store.rows(
            "select key from unnest(array['a', 'b', 'c', 'd']) key "
            "order by hashtextextended(%s || key, 0)",
            f'"{store.schema}".key ',
        )
    ]
    first, last = order[0], order[-1]
    with engine_connection(store.dsn) as conn, conn.transaction():
        store.run(jobs.lock_keys([first]), conn)
        backwards = Aside(store, jobs.lock_keys([*reversed(order), last])).wait_until_it_waits()
        conn.execute("set local lock_timeout = '20s'")
        assert store.run(jobs.lock_keys([last]), conn) == 1, "nobody has it yet"
    assert backwards.answer() == 4


def test_keys_of_another_schema_are_other_keys(store: Store) -> None:
    with engine_connection(store.dsn) as conn, conn.transaction():
        store.run(jobs.lock_keys(["k"]), conn)
        lock = "select pg_try_advisory_xact_lock(hashtextextended('\"another\".key k', 0)) as free"
        assert store.one(lock)["free"]


def test_joined_names_the_lines_that_grew_after_a_cursor(store: Store) -> None:
    assert store.run(jobs.joined(0, 100)) == Joined([], None, 0)
    store.enqueue()
    ids = [store.enqueue(key=key) for key in ("a", "b", "a", "c")]
    places = [store.row(job_id)["seq"] for job_id in ids]
    found = store.run(jobs.joined(0, 100))
    assert (sorted(found.keys), found.newest, found.count) == (["a", "b", "c"], places[3], 4)
    some = store.run(jobs.joined(0, 2))
    assert (sorted(some.keys), some.newest, some.count) == (["a", "b"], places[1], 2)
    rest = store.run(jobs.joined(places[1], 2))
    assert (sorted(rest.keys), rest.newest, rest.count) == (["a", "c"], places[3], 2)
    assert store.run(jobs.joined(places[3], 2)) == Joined([], None, 0)
    store.admit("c")
    assert "c" not in store.run(jobs.joined(0, 100)).keys


def _lines(store: Store, key: str, limit: int) -> list[tuple[str, bool]]:
    return [(line.key, line.room) for line in store.run(jobs.lines(key, limit, store.now))]


def test_lines_shows_every_key_with_a_line_some_at_a_time(store: Store) -> None:
    for key in ("b", "a", "c"):
        store.enqueue(key=key)
        store.enqueue(key=key)
    store.admit("b")
    store.enqueue(key="later", delay=60.0)
    assert _lines(store, "", 100) == [("a", True), ("b", False), ("c", True)]
    assert _lines(store, "", 2) == [("a", True), ("b", False)]
    assert _lines(store, "b", 2) == [("c", True)]
    assert _lines(store, "c", 2) == []


def test_lines_asks_for_the_limit_of_the_first_in_line(store: Store) -> None:
    store.enqueue(key="k", key_limit=5)
    store.admit("k")
    store.enqueue(key="k", key_limit=1)
    store.enqueue(key="k", key_limit=5)
    assert _lines(store, "", 9) == [("k", False)], "the narrow one must wait, and all behind"
    store.enqueue(key="k", key_limit=5, priority=1)
    assert _lines(store, "", 9) == [("k", True)]


def test_what_is_due_joins_its_line_unless_it_has_room(store: Store) -> None:
    worker = store.register(lease=1_000)
    kept = store.held(worker, key="ordered", ordered=True)
    store.settle(kept, "retry", delay=5)
    freed = store.held(worker, key="plain")
    store.settle(freed, "retry", delay=5)
    new = store.enqueue(key="new", delay=5.0)
    free = store.enqueue(delay=5.0)
    store.advance(5)
    with store.listening() as heard:
        assert store.run(jobs.promote(store.target, None, 10, store.now)).count == 4
        assert sorted(heard()) == ["blocked", "ready 0 q"]
    states = [store.states(job_id) for job_id in (kept.id, freed.id, new, free)]
    assert states == [["ready"], ["blocked"], ["blocked"], ["ready"]]
    assert _holding(store) == [UUID(kept.id)]


@pytest.mark.parametrize(
    ("kind", "delay", "ordered", "keeps"),
    [
        ("retry", 0.0, False, True),
        ("release", 0.0, False, True),
        ("retry", 5.0, False, False),
        ("snooze", 5.0, False, False),
        ("retry", 5.0, True, True),
        ("snooze", 5.0, True, True),
    ],
)
def test_i9_what_goes_round_frees_its_room_if_it_waits_and_is_not_ordered(
    store: Store, worker: int, kind: Any, delay: float, ordered: bool, keeps: bool
) -> None:
    claim = store.held(worker, key="k", ordered=ordered)
    behind = store.enqueue(key="k", ordered=ordered)
    assert store.settle(claim, kind, delay=delay)
    assert store.row(claim.id)["holds"] is keeps
    assert store.admit("k") == (0 if keeps else 1)
    assert store.row(behind)["holds"] is not keeps


@pytest.mark.parametrize("kind", ["succeed", "fail", "cancel"])
def test_i9_what_ends_frees_its_room(store: Store, worker: int, kind: Any) -> None:
    claim = store.held(worker, key="k")
    behind = store.enqueue(key="k")
    assert store.admit("k") == 0
    if kind == "cancel":
        store.cancel(claim.id)
    assert store.settle(claim, kind)
    assert store.admit("k") == 1
    assert _holding(store) == [behind]


def test_who_takes_room_away_from_a_waiting_job_says_so(store: Store) -> None:
    """A cancelled and an expired job had room, and no worker who could hand it on."""
    ready, blocked = store.enqueue(key="k one"), store.enqueue(key="k one")
    store.admit()
    with store.listening() as heard:
        _cancel(store, blocked)
        assert heard() == [], "it had none"
        _cancel(store, ready)
        assert heard() == [f"room {ready}"]
    ids = {
        key: sorted(str(store.enqueue(key=key, key_limit=2, ttl=5.0)) for _ in range(2))
        for key in ("a", "b")
    }
    store.admit("a")
    store.advance(5)
    with store.listening() as heard:
        assert store.run(jobs.expire(store.target, 10, store.now)) == 4
        assert heard() == [f"room {ids['a'][0]}"], "once for both"


@pytest.mark.parametrize("end", ["cancel", "expire"])
def test_who_takes_a_job_out_of_an_ordered_line_says_so(store: Store, end: str) -> None:
    """It may have been the first, locked at the moment of admission: none overtook
    it, and nobody else would look again."""
    job_id = store.enqueue(key="k", ordered=True, ttl=5.0)
    store.advance(5)
    with store.listening() as heard:
        if end == "cancel":
            _cancel(store, job_id)
        else:
            store.run(jobs.expire(store.target, 10, store.now))
        assert heard() == [f"room {job_id}"]


def test_a_lost_workers_job_keeps_its_room_or_frees_it_aloud(store: Store, worker: int) -> None:
    again = store.held(worker, key="again")
    ended = store.held(worker, key="ended")
    waiting = store.enqueue(key="ended")
    store.cancel(ended.id)
    store.run(fleet.retire(worker, store.now))
    with store.listening() as heard:
        assert store.rescue() == (1, 1)
        assert sorted(heard()) == ["ready 0 q", f"room {ended.id}"]
    assert store.row(again.id)["holds"]
    assert store.states(ended.id) == ["cancelled"]
    assert store.admit() == 1
    assert store.row(waiting)["holds"]


@pytest.mark.parametrize("ordered", [False, True])
def test_a_crash_frees_the_room_of_a_job_unless_it_is_ordered(
    store: Store, worker: int, ordered: bool
) -> None:
    """It comes back after a back-off. Only jobs that may not overtake it wait for that."""
    suspect = store.held(worker, key="k", ordered=ordered)
    waiting = store.enqueue(key="k", ordered=ordered)
    store.advance(30)
    with store.listening() as heard:
        assert store.rescue() == (1, 0)
        assert sorted(heard()) == ["later", *([] if ordered else [f"room {suspect.id}"])]
    assert store.row(suspect.id)["holds"] is ordered
    assert store.admit("k") == (0 if ordered else 1)
    assert store.row(waiting)["holds"] is not ordered


def test_the_keys_of_jobs_are_found_wherever_the_jobs_are(store: Store, worker: int) -> None:
    """A notification names a job, because everybody hears it, and keys are not for everybody."""
    live, ended = str(store.enqueue(key="live")), store.held(worker, key="ended", queue="e")
    other = str(store.enqueue(key="other"))
    without = str(store.enqueue())
    store.settle(ended, "succeed")
    asked = [live, ended.id, without, str(uuid4())]
    assert sorted(store.run(jobs.keys_of(asked))) == ["ended", "live"]
    assert store.run(jobs.keys_of([other, other])) == ["other"]
    assert store.run(jobs.keys_of([])) == []


def test_blocked_jobs_are_idle_only_while_others_hold_their_key(store: Store, worker: int) -> None:
    def idle(task: str) -> bool:
        return store.run(jobs.idle(["q"], [task], store.now))

    claim = store.held(worker, key="k", task="held elsewhere")
    blocked = store.enqueue(key="k")
    assert idle("resize"), "its room is with a task that is not asked for"
    store.settle(claim, "succeed")
    assert not idle("resize"), "it is about to be admitted"
    _cancel(store, blocked)
    assert idle("resize")


def test_a_claim_names_the_key_whose_room_it_has(store: Store, worker: int) -> None:
    store.enqueue(key="k")
    assert store.claim(worker) == [], "blocked"
    store.admit("k")
    (claim,) = store.claim(worker, ask())
    assert claim.key == "k"


def test_the_archive_keeps_the_keys_of_a_job(store: Store, worker: int) -> None:
    claim = store.held(
        worker, key="k", ordered=True, unique_key="u", on_taken="skip", until_claimed=True
    )
    store.settle(claim, "succeed")
    (row,) = store.rows("select keys from jobs where id = %s", claim.id)
    assert row["keys"] == {
        "concurrency": "k",
        "limit": 1,
        "ordered": True,
        "unique": "u",
        "until_claimed": True,
    }


def test_admitting_says_from_which_place_on_each_lane_has_more(store: Store) -> None:
    for queue, priority in (("mail", 0), ("mail", 3), ("default", 0), ("mail", 0)):
        store.enqueue(key=f"{queue} {priority}", key_limit=2, queue=queue, priority=priority)
    keys = ["mail 0", "mail 3", "default 0", "nobody"]
    admitted = store.run(jobs.admit(store.target, keys, store.now))
    first = "select queue, priority, min(seq) from job where state = 'r' group by 1, 2"
    places = {Lane(*lane): place for *lane, place in map(dict.values, store.rows(first))}
    assert (admitted.count, admitted.places) == (4, places)
