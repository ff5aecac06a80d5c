"""G8: hostile inputs to the SQL surface. Each is taken or refused with a code, and harms nothing.

The audit tried 82 of them by hand ("What held", and S4, S11, S12, S29). Here is a table of calls. Each
has its outcome: `TAKEN`, or how the SQLSTATE of the refusal begins.
"""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from headway import Headway
from tests.sql.hand import Hand

TAKEN = "taken"
REFUSED = "22023"
"""Headway refuses it itself, with a hint. Other codes are those of PostgreSQL, before a function runs."""

SYNTAX, MOMENT, FIELD, RANGE, BYTES = "22P02", "22007", "22008", "22003", "22021"
NO_SUCH_FUNCTION, UNKNOWN_COLUMN, TOO_MUCH, KEY_TAKEN = "42883", "42703", "54", "HW001"
ID = "0189aaaa-0000-7000-8000-00000000000a"

_PARAMETERS = (
    "input", "queue", "delay", "at", "priority", "max_attempts", "ttl", "headers", "concurrency_key",
    "concurrency_limit", "ordered", "unique_key", "on_taken", "scope", "period", "id", "step",
    "limit_key", "no_keys",
)  # fmt: skip


def enqueue(given: str) -> str:
    """A call of `enqueue` with SQL as arguments."""
    return f"select enqueue('greet', {given})"


def named(given: str) -> str:
    """A call whose task is an expression of SQL."""
    return f"select enqueue({given})"


def many(*jobs: Any) -> str:
    """A call of `enqueue_many` with this JSON."""
    return f"select enqueue_many('{json.dumps(jobs)}')"


def item(**options: Any) -> str:
    """One job in `enqueue_many`, after a good one."""
    return many({"task": "greet"}, {"task": "greet"} | options)


def series(count: int, bad: str) -> str:
    """Many jobs in `enqueue_many`; the last but one has the options `bad`."""
    return (
        "select enqueue_many(jsonb_agg(jsonb_build_object('task', 'greet') || "
        f"case n when {count - 1} then '{bad}' else '{{}}' end::jsonb)) "
        f"from generate_series(1, {count}) n"
    )


def inbox(columns: str, values: str) -> str:
    return f"insert into inbox ({columns}) values ({values})"


NAMES = {
    "task, empty": (named("''"), REFUSED),
    "task, null": (named("null"), REFUSED),
    "task, a space": (named("' '"), REFUSED),
    "task, 200 characters": (named("repeat('x', 200)"), TAKEN),
    "task, 201 characters": (named("repeat('x', 201)"), REFUSED),
    "task, a million characters": (named("repeat('x', 1000000)"), REFUSED),
    "task, tab": (named("E'a\\tb'"), REFUSED),
    "task, line break": (named("E'a\\nb'"), REFUSED),
    "task, escape": (named("E'a\\x1b[2J'"), REFUSED),
    "task, C1": (named("U&'a\\009b'"), REFUSED),
    "task, bidi": (named("U&'a\\202eb'"), REFUSED),
    "task, invisible": (named("U&'\\200b'"), REFUSED),
    "task, a space without a break at its end": (named("U&'a\\00a0'"), REFUSED),
    "task, byte order mark": (named("U&'\\feffa'"), REFUSED),
    "task, NUL by escape": (named("E'a\\x00'"), BYTES),
    "task, NUL by chr": (named("'a' || chr(0)"), TOO_MUCH),
    "task, NUL by bytes": (named("convert_from('\\x6100', 'utf8')"), BYTES),
    "task, half a surrogate": (named("U&'a\\d800'"), "42601"),
    "task, bytes that are not UTF-8": (named("convert_from('\\xff', 'utf8')"), BYTES),
    "task, SQL in a name": (named("'x''; drop table job; --'"), TAKEN),
    "task, format in a name": (named("'%s %I {schema}'"), TAKEN),
    "task, a step in its name": (named("'order/ship'"), REFUSED),
    "task, emoji": (named("U&'\\+01f600'"), TAKEN),
    "queue, empty": (enqueue("queue => ''"), REFUSED),
    "queue, star": (enqueue("queue => '*'"), TAKEN),
    "queue, long": (enqueue("queue => repeat('q', 9000)"), REFUSED),
    "queue, long in characters of three bytes": (enqueue("queue => repeat('日', 200)"), TAKEN),
    "queue, bidi": (enqueue("queue => U&'a\\2066b'"), REFUSED),
    "step, slash": (enqueue("step => 'a/b'"), REFUSED),
    "step, control": (enqueue("step => E'a\\x7f'"), REFUSED),
    "step, long": (enqueue("step => repeat('s', 201)"), REFUSED),
}

PAYLOADS = {
    "input, array": (enqueue("'[]'"), REFUSED),
    "input, null of JSON": (enqueue("'null'"), TAKEN),
    "input, text": (enqueue("'\"x\"'"), REFUSED),
    "input, no JSON": (enqueue("'{x}'"), SYNTAX),
    "input, empty text": (enqueue("''"), SYNTAX),
    "input, NUL": (enqueue("""'{"x": "\\u0000"}'"""), "22P05"),
    "input, NUL in a name": (enqueue("""'{"\\u0000": 1}'"""), "22P05"),
    "input, half a surrogate": (enqueue("""'{"x": "\\ud800"}'"""), SYNTAX),
    "input, backslash before u0000": (enqueue("""'{"x": "\\\\u0000"}'"""), TAKEN),
    "input, NaN": (enqueue("""'{"x": NaN}'"""), SYNTAX),
    "input, infinity": (enqueue("""'{"x": Infinity}'"""), SYNTAX),
    "input, a number beyond a double": (enqueue("""'{"x": 1e309}'"""), REFUSED),
    "input, such a number deep inside": (enqueue("""'{"x": [{"y": [-1e131000]}]}'"""), REFUSED),
    "input, a number beyond numeric": (enqueue("""'{"x": 1e200000}'"""), RANGE),
    "input, the largest double": (enqueue("""'{"x": 1.7976931348623157e308}'"""), TAKEN),
    "input, an integer of 300 digits": (
        enqueue("""('{"x": 1' || repeat('0', 300) || '}')::jsonb"""),
        TAKEN,
    ),
    "input, a number of 10,000 decimals": (
        enqueue("""('{"x": 0.' || repeat('1', 10000) || '}')::jsonb"""),
        TAKEN,
    ),
    "input, the same name twice": (enqueue("""'{"x": 1, "x": 2}'"""), TAKEN),
    "input, names of Python": (enqueue("""'{"__class__": {"__init__": 1}, "self": 1}'"""), TAKEN),
    "input, 201 levels": (
        enqueue("""('{"x": ' || repeat('[', 201) || repeat(']', 201) || '}')::jsonb"""),
        REFUSED,
    ),
    "input, 5,000 levels": (
        enqueue("""('{"x": ' || repeat('[', 5000) || repeat(']', 5000) || '}')::jsonb"""),
        REFUSED,
    ),
    "input, 1,000,000 levels": (enqueue("repeat('[', 1000000)::jsonb"), TOO_MUCH),
    "input, 17 MiB": (enqueue("jsonb_build_object('x', repeat('x', 17 * 1024 * 1024))"), REFUSED),
    "input, 100,000 names": (
        enqueue("(select jsonb_object_agg(n, n) from generate_series(1, 100000) n)"),
        TAKEN,
    ),
    "input, of another type": (enqueue("5"), NO_SUCH_FUNCTION),
    "headers, array": (enqueue("headers => '[]'"), REFUSED),
    "headers, text": (enqueue("headers => '\"x\"'"), REFUSED),
    "headers, numbers": (enqueue("""headers => '{"a": 1}'"""), REFUSED),
    "headers, null inside": (enqueue("""headers => '{"a": null}'"""), REFUSED),
    "headers, an object inside": (enqueue("""headers => '{"a": {}}'"""), REFUSED),
    "headers, null of JSON": (enqueue("headers => 'null'"), TAKEN),
    "headers, 17 MiB": (
        enqueue("headers => jsonb_build_object('x', repeat('x', 17 * 1024 * 1024))"),
        REFUSED,
    ),
}

TIMES = {
    "delay, negative": (enqueue("delay => '-1 s'"), REFUSED),
    "delay, 101 years": (enqueue("delay => '101 years'"), REFUSED),
    "delay, 178 million years": (enqueue("delay => '178000000 years'"), REFUSED),
    "delay, out of range": (enqueue("delay => '999999999999 years'"), "220"),
    "delay, no duration": (enqueue("delay => 'soon'"), MOMENT),
    "delay, infinity": (enqueue("delay => 'infinity'"), "220"),
    "delay, a number": (enqueue("delay => 5"), NO_SUCH_FUNCTION),
    "delay, mixed signs": (enqueue("delay => '1 day -25 hours'"), REFUSED),
    "delay, zero": (enqueue("delay => '0'"), TAKEN),
    "ttl, negative": (enqueue("ttl => '-1 us'"), REFUSED),
    "ttl, 101 years": (enqueue("ttl => '101 years'"), REFUSED),
    "ttl, zero": (enqueue("ttl => '0'"), TAKEN),
    "period, without a key": (enqueue("period => '1 s'"), REFUSED),
    "period, zero": (enqueue("unique_key => 'u', period => '0'"), REFUSED),
    "period, negative": (enqueue("unique_key => 'u', period => '-1 s'"), REFUSED),
    "at, infinity": (enqueue("at => 'infinity'"), REFUSED),
    "at, minus infinity": (enqueue("at => '-infinity'"), REFUSED),
    "at, before Christ": (enqueue("at => '0044-03-15 00:00+00 BC'"), REFUSED),
    "at, year 10000": (enqueue("at => '10000-01-01 00:00+00'"), REFUSED),
    "at, year 10000 in UTC only": (enqueue("at => '9999-12-31 23:59-14'"), REFUSED),
    "at, year 294276": (enqueue("at => '294276-12-31 00:00+00'"), REFUSED),
    "at, year 300000": (enqueue("at => '300000-01-01 00:00+00'"), FIELD),
    "at, 30 February": (enqueue("at => '2030-02-30 00:00+00'"), FIELD),
    "at, no moment": (enqueue("at => 'soon'"), MOMENT),
    "at, long ago": (enqueue("at => '0001-01-01 00:00+00'"), TAKEN),
    "at and delay": (enqueue("at => now(), delay => '1 s'"), REFUSED),
}

NUMBERS = {
    "priority, too high": (enqueue("priority => 32768"), REFUSED),
    "priority, too low": (enqueue("priority => -32769"), REFUSED),
    "priority, highest": (enqueue("priority => 32767"), TAKEN),
    "priority, largest integer": (enqueue("priority => 2147483647"), REFUSED),
    "priority, beyond an integer": (enqueue("priority => 2147483648"), NO_SUCH_FUNCTION),
    "priority, a fraction": (enqueue("priority => 1.5"), NO_SUCH_FUNCTION),
    "priority, text": (enqueue("priority => 'high'"), SYNTAX),
    "max_attempts, zero": (enqueue("max_attempts => 0"), REFUSED),
    "max_attempts, negative": (enqueue("max_attempts => -5"), REFUSED),
    "max_attempts, too many": (enqueue("max_attempts => 32001"), REFUSED),
    "concurrency_limit, without a key": (enqueue("concurrency_limit => 1"), REFUSED),
    "concurrency_limit, zero": (enqueue("concurrency_key => 'k', concurrency_limit => 0"), REFUSED),
    "concurrency_limit, too many": (
        enqueue("concurrency_key => 'k', concurrency_limit => 32001"),
        REFUSED,
    ),
}

KEYS = {
    "concurrency_key, empty": (enqueue("concurrency_key => ''"), REFUSED),
    "concurrency_key, long": (enqueue("concurrency_key => repeat('k', 9000)"), REFUSED),
    "concurrency_key, line break": (enqueue("concurrency_key => E'a\\nb'"), REFUSED),
    "concurrency_key, spaces at its ends": (enqueue("concurrency_key => ' k '"), TAKEN),
    "ordered, without a key": (enqueue("ordered => true"), REFUSED),
    "ordered, two at once": (
        enqueue("concurrency_key => 'k', concurrency_limit => 2, ordered => true"),
        REFUSED,
    ),
    "limit_key with concurrency_key": (
        enqueue("limit_key => 'l', concurrency_key => 'k'"),
        REFUSED,
    ),
    "limit_key, long": (enqueue("limit_key => repeat('l', 201)"), REFUSED),
    "limit_key of a task without a limit": (enqueue("limit_key => 'l'"), TAKEN),
    "unique_key, empty": (enqueue("unique_key => ''"), REFUSED),
    "unique_key, long": (enqueue("unique_key => repeat('u', 201)"), REFUSED),
    "unique_key, bidi": (enqueue("unique_key => U&'u\\202e'"), REFUSED),
    "unique_key, taken by the job before": (
        many(*[{"task": "greet", "unique_key": "u", "on_taken": "reject"}] * 2),
        KEY_TAKEN,
    ),
    "on_taken, unknown": (enqueue("unique_key => 'u', on_taken => 'merge'"), REFUSED),
    "on_taken, upper case": (enqueue("unique_key => 'u', on_taken => 'SKIP'"), REFUSED),
    "on_taken, empty": (enqueue("on_taken => ''"), REFUSED),
    "on_taken, replace for a period": (
        enqueue("unique_key => 'u', on_taken => 'replace', period => '1 h'"),
        REFUSED,
    ),
    "scope, unknown": (enqueue("unique_key => 'u', scope => 'ever'"), REFUSED),
    "scope, empty": (enqueue("scope => ''"), REFUSED),
    "id, malformed": (enqueue("id => 'x'"), SYNTAX),
    "id, empty": (enqueue("id => ''"), SYNTAX),
    "id, nil": (enqueue("id => '00000000-0000-0000-0000-000000000000'"), TAKEN),
    "id, twice": (many(*[{"task": "greet", "id": ID}] * 2), TAKEN),
    "id, twice with other keys": (
        many(*({"task": "greet", "id": ID, "unique_key": key} for key in "ab")),
        TAKEN,
    ),
    "an option that does not exist": (enqueue("color => 'red'"), NO_SUCH_FUNCTION),
}

NULLS = {f"null for {name}": (enqueue(f"{name} => null"), TAKEN) for name in _PARAMETERS}

MANY = {
    "jobs, null": ("select enqueue_many(null)", REFUSED),
    "jobs, null of JSON": ("select enqueue_many('null')", REFUSED),
    "jobs, an object": ("""select enqueue_many('{"task": "greet"}')""", REFUSED),
    "jobs, a number": ("select enqueue_many('5')", REFUSED),
    "jobs, no JSON": ("select enqueue_many('[')", SYNTAX),
    "jobs, none": ("select enqueue_many('[]')", TAKEN),
    "item, null": (many({"task": "greet"}, None), REFUSED),
    "item, a list": (many({"task": "greet"}, []), REFUSED),
    "item, a text": (many({"task": "greet"}, "greet"), REFUSED),
    "item, empty": (many({"task": "greet"}, {}), REFUSED),
    "item, unknown option": (item(color="red"), REFUSED),
    "item, columns of the table": (item(state="x", claim=7, worker=1), REFUSED),
    "item, task is a list": (item(task=["a\nb"]), REFUSED),
    "item, id malformed": (item(id="x"), REFUSED),
    "item, id is a number": (item(id=5), REFUSED),
    "item, at malformed": (item(at="soon"), REFUSED),
    "item, at is 30 February": (item(at="2030-02-30T00:00:00Z"), REFUSED),
    "item, at is a number": (item(at=5), REFUSED),
    "item, at is infinity": (item(at="infinity"), REFUSED),
    "item, priority is text": (item(priority="high"), REFUSED),
    "item, priority is a fraction": (item(priority=1.5), REFUSED),
    "item, priority is beyond an integer": (item(priority=10**30), REFUSED),
    "item, priority is a list": (item(priority=[1]), REFUSED),
    "item, max_attempts is true": (item(max_attempts=True), REFUSED),
    "item, ordered is text": (item(concurrency_key="k", ordered="maybe"), REFUSED),
    "item, no_keys is a number": (item(no_keys=5), REFUSED),
    "item, delay is true": (item(delay=True), REFUSED),
    "item, delay is a list": (item(delay=[1]), REFUSED),
    "item, delay is negative": (item(delay=-0.5), REFUSED),
    "item, delay is beyond a double": (item(delay=10**400), REFUSED),
    "item, delay is NaN": (item(delay="NaN"), REFUSED),
    "item, delay is infinity": (item(delay="infinity"), REFUSED),
    "item, delay has no unit that exists": (item(delay="5 parsecs"), REFUSED),
    "item, ttl is an object": (item(ttl={}), REFUSED),
    "item, period is text": (item(unique_key="u", period="often"), REFUSED),
    "item, input is a number": (item(input=5), REFUSED),
    "item, headers are a number": (item(headers=5), REFUSED),
    "item, on_taken is a number": (item(on_taken=1), REFUSED),
    "5,000 items": (series(5_000, "{}"), TAKEN),
    "one bad priority among 5,000": (series(5_000, '{"priority": 99999}'), REFUSED),
    "one bad id among 5,000": (series(5_000, '{"id": "x"}'), REFUSED),
    "one null among 5,000": (series(5_000, "null"), REFUSED),
}

INBOX = {
    "inbox, no task": (inbox("input", "'{}'"), REFUSED),
    "inbox, null": (inbox("task", "null"), REFUSED),
    "inbox, input is an array": (inbox("task, input", "'greet', '[]'"), REFUSED),
    "inbox, a number beyond a double": (
        inbox("task, input", """'greet', '{"x": 1e400}'"""),
        REFUSED,
    ),
    "inbox, at infinity": (inbox("task, at", "'greet', 'infinity'"), REFUSED),
    "inbox, negative delay": (inbox("task, delay", "'greet', '-1 s'"), REFUSED),
    "inbox, priority out of range": (inbox("task, priority", "'greet', 40000"), REFUSED),
    "inbox, headers of numbers": (inbox("task, headers", """'greet', '{"a": 1}'"""), REFUSED),
    "inbox, on_taken unknown": (inbox("task, on_taken", "'greet', 'merge'"), REFUSED),
    "inbox, id malformed": (inbox("task, id", "'greet', 'x'"), SYNTAX),
    "inbox, unknown column": (inbox("task, state", "'greet', 'x'"), UNKNOWN_COLUMN),
    "inbox, one bad row of three": (
        "insert into inbox (task, priority) values ('greet', 1), ('greet', 99999), ('greet', 1)",
        REFUSED,
    ),
    "inbox, update": ("update inbox set task = 'greet'", "55000"),
    "inbox, delete": ("delete from inbox", "55000"),
    "inbox, all columns null but one": (
        f"insert into inbox (task, {', '.join(_PARAMETERS)}) "
        f"values ('greet', {', '.join(['null'] * len(_PARAMETERS))})",
        TAKEN,
    ),
}

CASES = NAMES | PAYLOADS | TIMES | NUMBERS | KEYS | NULLS | MANY | INBOX


@pytest.mark.parametrize("case", CASES)
def test_g8_a_hostile_call_is_taken_or_refused_and_harms_nothing(hand: Hand, case: str) -> None:
    query, outcome = CASES[case]
    before = hand.everything()
    if outcome == TAKEN:
        hand.rows(query)
    else:
        with pytest.raises(psycopg.Error) as refused:
            hand.rows(query)
        state = refused.value.sqlstate or ""
        assert state.startswith(outcome), refused.value
        assert state != REFUSED or refused.value.diag.message_hint
        assert hand.everything() == before
    _run_a_good_job(hand)


def test_g8_a_worker_ends_everything_that_was_taken(hand: Hand) -> None:
    """One worker meets all of it at once. Jobs of tasks that it does not have wait for another worker."""
    for query, outcome in CASES.values():
        if outcome == TAKEN:
            hand.rows(query)
    good = hand.enqueue("good")
    with Headway(hand.dsn, schema=hand.schema) as hw:
        hw.task(name="greet")(lambda: None)
        hw.task(name="good")(lambda: 7)
        hw.run_until_idle_sync(queues={"*": 1}, grace="1s")
        assert hw.job(good).result_sync() == 7
    assert hand.rows("select id from job where task in ('greet', 'good')") == []
    assert hand.rows("select id from job where state <> 'r'") == []


def _run_a_good_job(hand: Hand) -> None:
    hand.sweep()
    made = hand.enqueue("good", queue="good")
    (claimed,) = hand.claim("good")
    assert hand.settle("complete", claimed)
    assert hand.state(made) == "succeeded"
