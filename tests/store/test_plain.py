"""Plain jobs: one INSERT into a view that lets a producer make nothing else (G16)."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from headway.core.ids import new_id, new_ids
from headway.store.connections.client import Client
from headway.store.connections.connect import Target, complete_dsn
from headway.store.connections.identity import Identity
from headway.store.documents import PlainShape, hints_of
from headway.store.statements import jobs, plain
from tests.store.store import Store, new_job
from tests.support import eventually_sync

SHAPE = PlainShape("mail", "resize", "", 3, 7)


@pytest.fixture
def client(store: Store) -> Iterator[Client]:
    client = Client(Target(complete_dsn(store.dsn), store.schema))
    yield client
    client.close_sync()


def test_a_plain_job_is_the_same_row_as_one_of_the_function(store: Store) -> None:
    ids = [str(new_id()) for _ in range(3)]
    one, alike, function = ids
    inputs = b'{"n": 1}'
    store.run(plain.enqueue_alike(SHAPE, [alike], [inputs]))
    store.run(jobs.enqueue(store.target, [SHAPE.job(function, inputs)], None))
    store.run(plain.enqueue_one(SHAPE, one, inputs))
    rows = [store.live(id_) for id_ in ids]
    drawn = {"id", "seq", "run_at", "created_at"}
    first, *others = [{k: v for k, v in (row or {}).items() if k not in drawn} for row in rows]
    assert all(other == first for other in others)
    assert (first["state"], first["claim"], first["attempt"], first["priority"]) == ("r", 0, 0, 3)


def test_g3_a_repetition_makes_no_second_job(store: Store, client: Client) -> None:
    (job_id,) = new_ids(1)
    for _ in range(6):  # beyond the point at which the statement is prepared
        client.run_one_sync(plain.enqueue_one(SHAPE, job_id, b"{}"))
    assert store.count("job") == 1


def test_places_follow_the_order_of_the_call(store: Store) -> None:
    ids = new_ids(500)
    store.run(plain.enqueue_alike(SHAPE, ids, [b'{"n": %d}' % n for n in range(500)]))
    numbers = [row["n"] for row in store.rows("select input->>'n' as n from job order by seq")]
    assert numbers == [str(n) for n in range(500)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 500


def test_a_plain_job_elsewhere_is_not_made(store: Store) -> None:
    there = Identity("another", "0", "")
    with psycopg.connect(store.dsn) as conn:
        statement = plain.enqueue_one_in(store.target, SHAPE, str(new_id()), b"{}", there)
        client = Client(store.target)
        assert client.run_in_sync(conn, lambda _: [statement]) == [False]
        conn.commit()
    assert store.count("job") == 0


@pytest.mark.parametrize(
    "poison",
    [
        {"queue": "\x1b[2J"},
        {"queue": ""},
        {"task": " t"},
        {"task": "t" * 201},
        {"step": "a\nb"},
        {"task": "flow/step"},
        {"step": "a/b"},
        {"input": "[]"},
        {"max_attempts": 0},
        {"priority": 99_999},
    ],
    ids=str,
)
def test_g8_the_view_takes_no_row_that_the_function_would_refuse(
    store: Store, poison: dict[str, object]
) -> None:
    given = {"id": str(new_id()), "max_attempts": 1, "priority": 0, "queue": "q", "task": "t"}
    given |= {"step": "", "input": "{}"} | poison
    names = ", ".join(given)
    places = ", ".join(f"%({name})s" for name in given)
    with psycopg.connect(store.dsn) as conn, pytest.raises(psycopg.Error) as refused:
        conn.execute(f"insert into {store.schema}.new_jobs ({names}) values ({places})", given)
    assert refused.value.sqlstate in ("44000", "23514", "22003")


def test_hints_name_what_a_worker_would_be_told_in_the_transaction() -> None:
    ready, later, keyed = new_job(priority=2), new_job(delay=9.0), new_job(key="k")
    assert set(hints_of([ready, later, keyed])) == {
        (ready.queue, 2, "r"),
        ("", 0, "s"),
        ("", 0, "b"),
    }


def test_workers_are_notified_after_the_commit(store: Store, client: Client) -> None:
    with psycopg.connect(store.dsn, autocommit=True) as ears:
        ears.execute(f"listen {store.schema}_work")
        client.run_one_sync(plain.enqueue_one(SHAPE, str(new_id()), b"{}"))
        client.run_sync(jobs.enqueue(store.target, [new_job(delay=9.0)], None, notify_after=True))
        heard = {note.payload for note in ears.notifies(timeout=20, stop_after=2)}
    assert heard == {"ready 3 mail", "later"}


def test_a_bell_that_is_cut_off_sends_the_next_hint(store: Store, client: Client) -> None:
    client.run_one_sync(plain.enqueue_one(SHAPE, str(new_id()), b"{}"))
    client._bell.flush(20)
    eventually_sync(lambda: store.terminate("headway-bell") == 1)
    with psycopg.connect(store.dsn, autocommit=True) as ears:
        ears.execute(f"listen {store.schema}_work")
        client.run_one_sync(plain.enqueue_one(SHAPE, str(new_id()), b"{}"))
        assert [note.payload for note in ears.notifies(timeout=20, stop_after=1)] == [
            "ready 3 mail"
        ]


def test_a_hint_that_cannot_be_sent_does_not_end_the_bell(store: Store, client: Client) -> None:
    with psycopg.connect(store.dsn, autocommit=True) as ears:
        ears.execute(f"listen {store.schema}_work")
        client._bell.notify([("no text: \ud800", 0, "r")])
        client._bell.flush(20)
        client.run_one_sync(plain.enqueue_one(SHAPE, str(new_id()), b"{}"))
        assert [note.payload for note in ears.notifies(timeout=20, stop_after=1)] == [
            "ready 3 mail"
        ]


async def test_closing_sends_what_is_left_and_ends_the_thread(store: Store) -> None:
    client = Client(Target(complete_dsn(store.dsn), store.schema))
    with psycopg.connect(store.dsn, autocommit=True) as ears:
        ears.execute(f"listen {store.schema}_work")
        await client.run_one(plain.enqueue_one(SHAPE, str(new_id()), b"{}"))
        await client.close()
        assert client._bell._thread is None
        assert not client._bell.busy
        assert [note.payload for note in ears.notifies(timeout=20, stop_after=1)] == [
            "ready 3 mail"
        ]


def test_without_notifications_there_is_no_bell(store: Store) -> None:
    client = Client(store.quiet)
    client.run_one_sync(plain.enqueue_one(SHAPE, str(new_id()), b"{}"))
    assert client._bell._thread is None
    client.close_sync()
