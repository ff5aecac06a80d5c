"""Every state and every move of core/state.py, on a real server.

For each pair the statement of the move is run on a job in that state, once for each way it can be
run, as if the caller knew everything that the row says. Where the table of moves has no arrow,
nothing may be written, not even the same values again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from typing import Any
from uuid import UUID, uuid4

import pytest

from headway.core.state import MOVES, Move, State, leads_to
from headway.core.verdict import Kind
from headway.store.statements import bulk, groups, jobs
from tests.store.store import TASK, Store, a_claim, new_job

_LEASE = 1_000.0
_TTL = 200.0
_DELAY = 10.0
_KEY = "room for one"
_RATED = {"key": _KEY, "key_limit": 0}
"""A job that takes a token of its key to run."""
_FILES = resources.files("headway.store") / "sql" / "moves"


@dataclass(frozen=True)
class Way:
    """One way to make a move: what to run, how long after the job was placed, on what kind of job."""

    run: Callable[[Store, UUID, int], Any]
    after: float = 0.0
    job: dict[str, Any] = field(default_factory=dict)
    cancelling: bool = False
    after_that: Callable[[Store], None] = lambda store: None
    """Changes to the job in its state, before the move."""


def _enqueue(**fields: Any) -> Way:
    def run(store: Store, job_id: UUID, worker: int) -> None:
        # A repetition: the statement, and the one that takes back what had already ended.
        with store.conn.transaction():
            made = jobs.enqueue(store.target, [new_job(id=str(job_id), **fields)], store.now)
            store.run(made)
            store.run(jobs.withdraw([str(job_id)]))

    return Way(run)


def _settle(
    kind: Kind, job: dict[str, Any] | None = None, *, cancelling: bool = False, **fields: Any
) -> Way:
    def run(store: Store, job_id: UUID, worker: int) -> None:
        row = store.live(job_id) or store.archived(job_id)
        store.settle(a_claim(job_id, row["claim"] if row else 1), kind, **fields)

    return Way(run, job=job or {}, cancelling=cancelling)


def _promote(**job: Any) -> Way:
    return Way(
        lambda store, job_id, worker: store.run(jobs.promote(store.target, None, 10, store.now)),
        after=_DELAY,
        job=job,
    )


def _revive(**job: Any) -> Way:
    return Way(
        lambda store, job_id, worker: store.run(jobs.revive(store.target, job_id, None, store.now)),
        job=job,
    )


def _rescue(**fields: Any) -> Way:
    return Way(
        lambda store, job_id, worker: store.rescue(10),
        after=_LEASE,
        **fields,
    )


def _survives(store: Store) -> None:
    """The worker's process lost its lease, and lives."""
    store.rows("update worker set survived = true returning 1")


def _shut(store: Store) -> None:
    """Its queue is paused, and another of its key could run."""
    store.enqueue(queue="open", key=_KEY)
    store.pause("q")


def _unadmit(store: Store, job_id: UUID, worker: int) -> None:
    with store.conn.transaction():
        store.run(jobs.lock_keys([_KEY]))
        store.run(jobs.unadmit([_KEY], store.now))


def _throughout(store: Store, change: bulk.Change) -> None:
    store.run(change(UUID(int=0), None))


def _follow(store: Store, job_id: UUID, worker: int) -> None:
    follow_up = new_job(id=str(job_id))
    store.run(groups.enqueue(store.target, [new_job(queue="q2")], follow_up, 0, store.now))


def _gather(**job: Any) -> Way:
    """The follow-up of a group without members: `_place` lets it wait."""

    def after_that(store: Store) -> None:
        store.rows(
            "insert into fan_in (job_id, members, witnesses, all_but, made_at, look_at, gathered_at)"
            " select id, '{}', '{}', 0, now(), now(),"
            " case when state <> 'w' then now() end from job returning 1"
        )

    return Way(
        lambda store, job_id, worker: store.run(
            groups.gather(store.target, [str(job_id)], store.now)
        ),
        job=job,
        after_that=after_that,
    )


WAYS: dict[Move, list[Way]] = {
    Move.ENQUEUE: [
        _enqueue(),
        _enqueue(delay=_DELAY),
        _enqueue(key="another"),
        _enqueue(unique_key="of its own"),
        Way(_follow),
    ],
    Move.CLAIM: [Way(lambda store, job_id, worker: store.claim(worker))],
    Move.FINISH: [
        _settle("succeed"),
        _settle("fail"),
        _settle("cancel", cancelling=True),
        _settle("fail", cancelling=True),
    ],
    Move.ADVANCE: [
        _settle("advance"),
        _settle("advance", delay=5),
        _settle("advance", key="another"),
    ],
    Move.ADMIT: [
        Way(lambda store, job_id, worker: store.admit(_KEY), job={"key": _KEY}),
    ],
    Move.UNADMIT: [Way(_unadmit, job={"key": _KEY}, after_that=_shut)],
    Move.REQUEUE: [
        _settle("retry"),
        _settle("retry", delay=5),
        _settle("snooze", delay=5),
        _settle("release"),
        _settle("retry", job=_RATED),
        _settle("retry", delay=5, crashed=True),
    ],
    Move.PROMOTE: [_promote(), _promote(key=_KEY)],
    Move.GATHER: [_gather(), _gather(key=_KEY), _gather(delay=_DELAY)],
    Move.CANCEL: [
        Way(
            lambda store, job_id, worker: store.cancel(job_id),
        )
    ],
    Move.EXPIRE: [
        Way(
            lambda store, job_id, worker: store.run(jobs.expire(store.target, 10, store.now)),
            after=_TTL,
        )
    ],
    Move.RESCUE: [
        _rescue(),
        _rescue(job={"options": {"retry": {"max_crashes": 1}}}),
        _rescue(cancelling=True),
        _rescue(after_that=_survives),
        _rescue(after_that=_survives, job=_RATED),
    ],
    Move.REVIVE: [_revive(), _revive(key=_KEY)],
    Move.PURGE: [
        Way(
            lambda store, job_id, worker: _throughout(
                store, bulk.purge(store.target, "q", None, store.now)
            )
        )
    ],
    Move.TRANSFER: [
        Way(
            lambda store, job_id, worker: _throughout(
                store, bulk.transfer(store.target, "q", "another", TASK, store.now)
            )
        )
    ],
}


def _place(store: Store, state: State | None, worker: int, way: Way) -> UUID:
    """A job in `state`, brought there by moves where there are any."""
    if state is None:
        return uuid4()
    fields = dict(way.job)
    later = (
        fields.pop("delay", None) if state is State.WAITING else fields.pop("delay", None) and None
    )
    delay = _DELAY if state is State.SCHEDULED else later
    fields |= {"key": _KEY} if state is State.BLOCKED else {}
    job_id = store.enqueue(ttl=_TTL, delay=delay, **fields)
    if fields.get("key_limit") == 0:
        store.limit(TASK, "keys", rate="1/s")
    if state not in (State.SCHEDULED, State.BLOCKED) and "key" in fields:
        assert store.admit(_KEY) == 1
    match state:
        case State.READY | State.SCHEDULED | State.BLOCKED:
            pass
        case State.WAITING:
            store.rows(
                "update job set state = %s, holds = false where id = %s returning 1",
                state.value,
                job_id,
            )
        case State.CANCELLED:
            store.cancel(job_id)
        case State.EXPIRED:
            store.advance(_TTL)
            store.run(jobs.expire(store.target, 1, store.now))
            store.advance(-_TTL)
        case _:
            (claim,) = store.claim(worker)
            if state is not State.RUNNING:
                store.settle(claim, "succeed" if state is State.SUCCEEDED else "fail")
            elif way.cancelling:
                store.cancel(job_id)
    assert store.states(job_id) == [state.label]
    return job_id


@pytest.mark.parametrize("state", [*State, None], ids=lambda s: s.label if s else "no_such_job")
@pytest.mark.parametrize("move", Move, ids=lambda m: m.value)
def test_a_move_leads_exactly_where_the_table_of_moves_says(
    store: Store, move: Move, state: State | None
) -> None:
    reached: set[State] = set()
    for way in WAYS[move]:
        store.clear()
        worker = store.register(lease=_LEASE)
        job_id = _place(store, state, worker, way)
        way.after_that(store)
        before = store.everything()
        store.advance(way.after)
        way.run(store, job_id, worker)
        if not leads_to(move, state):
            assert store.everything() == before, "it wrote where it may not"
            continue
        (label,) = store.states(job_id)
        reached.add(State.of_label(label))
    assert reached == leads_to(move, state)


def test_a_running_job_that_is_cancelled_is_only_asked_to_stop(store: Store, worker: int) -> None:
    claim = store.held(worker)
    before = store.live(claim.id)
    assert before is not None
    assert store.cancel(claim.id) == "asked"
    assert store.live(claim.id) == before, "its row is not touched"
    assert store.run(jobs.held([claim])) == {claim.id: True}


def test_every_move_has_a_file_and_every_file_a_move() -> None:
    files = {file.name.removesuffix(".sql") for file in _FILES.iterdir()}
    # Withdrawing is the other half of a repeated enqueue, not a move that anyone asks for. A plain claim
    # is the same move as a claim.
    assert files == {move.value for move in Move} | {"withdraw", "claim_plain"}
    assert set(MOVES) == set(Move)


_LABELS = "|".join([*(state.label for state in State), r"\(nothing\)"])
_SIDE = rf"(?:{_LABELS})(?: \| (?:{_LABELS}))*"
_ARROW = re.compile(rf"({_SIDE}) -> ({_SIDE}|the same)")


@pytest.mark.parametrize("move", Move, ids=lambda m: m.value)
def test_the_first_line_of_a_move_names_its_arrows(move: Move) -> None:
    opening = (_FILES / f"{move.value}.sql").read_text("utf-8").splitlines()[0]
    assert opening.startswith("-- ")
    named: dict[State | None, frozenset[State]] = {}
    leads = frozenset[State]()
    for sources, targets in _ARROW.findall(opening):
        if targets != "the same":
            leads = frozenset(State.of_label(label) for label in targets.split(" | "))
        for source in sources.split(" | "):
            named[None if source == "(nothing)" else State.of_label(source)] = leads
    assert named == MOVES[move]
