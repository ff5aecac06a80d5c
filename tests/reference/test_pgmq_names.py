"""Queues and their names, payloads and headers: what pgmq's tests ask of a queue itself."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.errors import ConfigError
from tests.reference.scenes import work_of
from tests.sql.hand import Hand
from tests.support import DEADLINE

LONGEST = 200
WICKED = "x'; drop table job; --"


def test_q1_headers_come_with_the_claim(hand: Hand) -> None:
    """pgmq: headers are read with an entry. Headway: with a claim, and they stay with the job."""
    made = hand.enqueue(input_={"n": 1}, headers={"tenant": "acme"}, queue="ext")
    (claimed,) = hand.claim("ext")
    assert (claimed["input"], claimed["headers"]) == ({"n": 1}, {"tenant": "acme"})
    hand.settle("complete", claimed)
    assert hand.ended(made)["headers"] == {"tenant": "acme"}


def test_q2_a_name_has_up_to_200_characters(hand: Hand) -> None:
    """pgmq: 47, because it becomes that of a table. Headway: a name is a value; 200."""
    hand.enqueue(queue="q" * LONGEST)
    assert len(hand.claim("q" * LONGEST)) == 1
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="queue"):
        hand.enqueue(queue="q" * (LONGEST + 1))
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="queue"):
        hand.claim("q" * (LONGEST + 1))


async def test_q3_a_queue_need_not_be_created(hw: Headway, hand: Hand) -> None:
    """pgmq: creating one twice is no error. Headway: there is nothing to create; it is there with its
    first job and gone with its last."""
    assert hand.claim("ext") == []
    assert await hw.queues.list() == []
    for _ in range(2):
        hand.enqueue(queue="ext")
    assert [queue.name for queue in await hw.queues.list()] == ["ext"]
    for claimed in hand.claim("ext", 2):
        hand.settle("complete", claimed)
    assert await hw.queues.list() == []


def test_q22_what_is_rolled_back_leaves_no_queue_behind(hand: Hand) -> None:
    """pgmq: creating a queue is transactional. Headway: so is the job that it is there with."""
    with hand.conn.transaction(force_rollback=True):
        hand.enqueue(queue="ext")
        hand.call("pause", "ext")
        assert hand.value("select count(*) from queues") == 1
    assert hand.rows("select * from queues") == []


@pytest.mark.parametrize("name", [WICKED, "%s", "a.b", 'x" y', "$1", "$$", "{schema}", "\\"])
async def test_q25_a_name_that_is_sql_is_a_name(hw: Headway, hand: Hand, name: str) -> None:
    """pgmq: creating a queue of it fails. Headway: names are parameters, so nothing has to fail."""
    hand.enqueue("greet", queue=name)
    hand.enqueue(name, queue=name, headers={name: name}, concurrency_key=name, unique_key=name)
    assert (await hw.queues.metrics(name)).ready == 1
    hand.call("pause", name)
    assert hand.claim(name) == []
    hand.call("resume", name)
    hand.sweep()
    plain, wicked = hand.claim(name, 2)
    assert (plain["task"], wicked["task"], wicked["key"]) == ("greet", name, name)
    assert wicked["headers"] == {name: name}
    assert hand.settle("fail", wicked, name, again=False)
    assert hand.ended(wicked["id"])["error"]["message"] == name
    assert hand.settle("release", plain)
    assert hand.call("purge", name) == 1


async def test_q26_names_have_hyphens_capitals_and_signs(
    hw: Headway, hand: Hand, start: Any
) -> None:
    """pgmq: capitals are one queue with small letters, and never notified; $ ; -- ' are refused.
    Headway: every printable name is one of its own, and its jobs are heard of."""
    work = work_of(hw)
    names = ["Mail", "mail", "mail-2", "a;b", "--", "it's", "$x", "größe", "two words"]
    worker = start(queues=dict.fromkeys(names, 1), poll="1h")
    for number, name in enumerate(names):
        job = await work.using(queue=name).enqueue(number)
        assert await job.result(timeout=DEADLINE) == number
        assert (await job.status()).queue == name
    assert not worker.done()


@pytest.mark.parametrize("name", ["", " mail", "mail ", "a\nb", "a\tb"])
async def test_q26_blank_ends_and_control_characters_are_refused(
    hw: Headway, hand: Hand, name: str
) -> None:
    """pgmq: takes blanks as they are. Headway: what nobody can see in a name is refused everywhere."""
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="queue"):
        hand.enqueue(queue=name)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="queue"):
        hand.claim(name)
    with pytest.raises(ConfigError, match="queue"):
        hw.pull(name)
    with pytest.raises(ConfigError, match="queue"):
        hw.worker(queues={name: 1})


def test_q27_no_input_is_an_empty_one(hand: Hand) -> None:
    """pgmq: an entry may be NULL. Headway: a job has arguments; NULL and nothing mean none of them."""
    for sql in ("enqueue('greet', null)", "enqueue('greet')", "enqueue('greet', 'null')"):
        hand.rows(f"select {sql}")
    assert [claimed["input"] for claimed in hand.claim("default", 3)] == [{}, {}, {}]
    for wrong in ("[]", "1", '"text"'):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="not a JSON object"):
            hand.rows("select enqueue('greet', %s::jsonb)", wrong)
