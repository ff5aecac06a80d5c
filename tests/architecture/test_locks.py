"""G14: nobody waits for a stranger, and no two statements lock the same rows in two orders.

Each write of the SQL files that may lock several rows goes by places (ctid) that were locked with `skip
locked` in the same statement. Each other one is listed here, with the reason why it may wait, or cannot.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.architecture.source import sql_files

_FILES = sql_files("moves", "writes", "functions")
# Rows that operators, consumers in SQL and users' transactions can lock.
_TABLES = (
    "job|archive|control|schedule|worker|awaited|unique_period|bucket|start|tally"
    "|stop_request|drain_request|unkept|fan_in"
)

_OWN = "rows that this transaction has locked, or made, itself"
_PERSON = "one row by its key, on behalf of the person who asked for it"
_ENDED = "only who ends a job deletes its row, and prune() those of a day ago"
_ANSWERED = "of jobs that this transaction has ended: nobody else deletes their requests"
_LISTED: dict[str, dict[str, str]] = {
    "moves/finish": {
        "delete job": "goes by xmax: a row that somebody has locked is left alone (careful: `held`)",
        "delete awaited": _ENDED,
        "delete stop_request": _ANSWERED,
    },
    "moves/cancel": {
        "delete awaited": _ENDED,
        "delete stop_request": _ANSWERED,
    },
    "moves/expire": {
        "delete awaited": _ENDED,
    },
    "moves/purge": {
        "delete awaited": _ENDED,
    },
    "moves/rescue": {
        "delete awaited": _ENDED,
        "delete stop_request": _ANSWERED,
    },
    "moves/revive": {
        "delete archive": _PERSON,
        "update job": _PERSON,
        "delete stop_request": "of a job that has ended; only who revives it is there",
    },
    "moves/claim": {
        "upsert bucket": "of limits that lock_limits.sql has locked, in order; prune() takes full ones",
    },
    "moves/admit": {
        "delete start": "behind the lock of the key; prune() takes those of an old rate",
        "upsert bucket": "behind the lock of the key, in order; prune() takes those that are full",
    },
    "writes/edit": {"update job": _PERSON, "update archive": _PERSON},
    "writes/pause": {"upsert control": _PERSON},
    "writes/resume": {"lock control": _PERSON, "update control": _OWN, "delete control": _OWN},
    "writes/set_limit": {"upsert control": _PERSON},
    "writes/reset_limit": {"lock control": _PERSON, "update control": _OWN, "delete control": _OWN},
    "writes/declare_limits": {
        "upsert control": "in the order of kind and name, and only what has changed",
        "update control": "only what has changed: the code has a limit no more",
    },
    "writes/pause_schedule": {"update schedule": _PERSON},
    "writes/resume_schedule": {"lock schedule": _PERSON, "update schedule": _OWN},
    "writes/remove_schedule": {"delete schedule": _PERSON},
    "writes/put_schedules": {"upsert schedule": "in the order of names"},
    "writes/clean_schedules": {
        "delete schedule": "a person asks for it, or a worker that starts; one statement by itself",
    },
    "writes/fire": {"update schedule": _OWN},
    "writes/note_trouble": {
        "update worker": "its own row, locked with skip locked in the condition"
    },
    "writes/register_worker": {"update worker": "its own row, by its key"},
    "writes/retire_worker": {"update worker": "its own row, by its key"},
    "writes/heartbeat": {"update worker": "its own row, by its key: no request locks it"},
    "functions/3_jobs": {
        "lock job": "replace: the producer waits for the transaction that has the job of its unique key",
        "update job": _OWN,
        "delete job": _OWN,
        "upsert unique_period": "the producer waits for the transaction that takes its unique key",
    },
    "functions/3_groups": {
        "update fan_in": _OWN,
        "update fan_in (2)": _OWN,
        "update fan_in (3)": _OWN,
        "update job": _OWN,
    },
    "functions/5_consumers": {
        "lock job": "the consumer's own claim, by its key: it waits in its own transaction",
        "update worker": "the consumer's own row, by its key",
        "delete worker": "the consumer's own row, by its key",
        "delete worker (2)": "the consumer's own row, by its key",
    },
}


def _end(sql: str, start: int) -> int:
    """Return where the part that is open at `start` ends: its parenthesis, its statement, or the text."""
    depth = 0
    for place in range(start, len(sql)):
        depth += {"(": 1, ")": -1}.get(sql[place], 0)
        if depth < 0 or sql[place] == ";":
            return place
    return len(sql)


def _begin(sql: str, end: int) -> int:
    """Return where the part begins that is open at `end`."""
    depth = 0
    for place in range(end - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(sql[place], 0)
        if depth < 0 or sql[place] == ";":
            return place + 1
    return 0


def _parts(sql: str) -> dict[str, str]:
    """Return the bodies of the `name as (...)` of a file."""
    found = re.finditer(r"\b(\w+)(?:\([^)]*\))? as (?:materialized )?\(", sql)
    return {match[1]: sql[match.end() : _end(sql, match.end())] for match in found}


def _locks(name: str, parts: dict[str, str]) -> bool:
    """Return whether a part locks the rows that it names, or names only rows that such a part locks."""
    body = parts.get(name, "")
    if "skip locked" in body:
        return True
    sources = set(re.findall(r"\b(?:from|join)\s+(\w+)\b(?!\s*[.(])", body)) & parts.keys()
    return bool(sources) and all(_locks(source, parts) for source in sources - {name})


def _goes_by_locked_places(statement: str, parts: dict[str, str]) -> bool:
    inline = re.search(r"\bctid = any \(array\(\s*select ctid from {schema}\.", statement)
    if inline:
        return "skip locked" in statement[inline.start() :]
    named = re.search(
        r"(\bor\s+)?\b(?:\w+\.)?ctid = any \(array\(select \w+ from (\w+)\b", statement
    )
    if named:
        return not named[1] and _locks(named[2], parts)
    joined = re.search(r"\bctid = (\w+)\.at\b", statement)
    if joined:
        source = re.search(rf"\b(?:from|using)\s+(\w+)\s+{joined[1]}\b", statement)
        return source is not None and _locks(source[1], parts)
    return False


def _writes(sql: str) -> Iterator[tuple[str, bool]]:
    """Yield each write that may wait for a row, like `update job`, and whether it cannot."""
    parts = _parts(sql)
    for match in re.finditer(rf"\b(update|delete from)\s+{{schema}}\.({_TABLES})\b", sql):
        statement = sql[match.start() : _end(sql, match.start())]
        yield f"{match[1].split()[0]} {match[2]}", _goes_by_locked_places(statement, parts)
    for match in re.finditer(rf"\binsert\s+into\s+{{schema}}\.({_TABLES})\b", sql):
        statement = sql[match.start() : _end(sql, match.start())]
        if "do update" in statement:
            yield f"upsert {match[1]}", False
    for match in re.finditer(r"\bfor (?:no key )?(?:update|share)\b(?! of \w+ skip| skip)", sql):
        part = sql[_begin(sql, match.start()) : match.start()]
        table = re.findall(rf"\bfrom\s+{{schema}}\.({_TABLES})\b", part)[0]
        yield f"lock {table}", False


def _may_wait(sql: str) -> list[str]:
    """Return the writes that may wait, the second of a kind as `update job (2)`."""
    seen = Counter(write for write, guarded in _writes(sql) if not guarded)
    return sorted(
        write if number == 1 else f"{write} ({number})"
        for write, count in seen.items()
        for number in range(1, count + 1)
    )


@pytest.mark.parametrize("name", _FILES)
def test_g14_a_write_goes_by_rows_that_were_locked_with_skip_locked_or_is_listed(name: str) -> None:
    """A write that is not listed yet may lock several rows: lock them first, with `skip locked`, and
    change them by their ctid. If it cannot wait, or may, say why in `_LISTED`."""
    assert _may_wait(_FILES[name]) == sorted(_LISTED.get(name, {}))


def test_every_file_of_the_list_is_there() -> None:
    assert _LISTED.keys() <= _FILES.keys()


def test_most_writes_of_jobs_go_by_locked_rows() -> None:
    """The rule finds what it looks for."""
    guarded = {name for name, sql in _FILES.items() if any(ok for _, ok in _writes(sql))}
    moves = "claim claim_plain advance requeue admit unadmit promote cancel expire purge transfer rescue"
    moves += " gather"
    writes = "progress mark_limited clean_up tally"
    assert guarded == {f"moves/{name}" for name in moves.split()} | {
        f"writes/{name}" for name in writes.split()
    }


_LOCKED = "with some as (select ctid as at from {schema}.job where x for update skip locked)"
_CAREFUL = [
    f"{_LOCKED} update {{schema}}.job set a = 1 where ctid = any (array(select at from some))",
    f"{_LOCKED} update {{schema}}.job j set a = 1 from some s where j.ctid = s.at returning 1",
    f"{_LOCKED}, few as (select at from some limit 3) delete from {{schema}}.job j using few f "
    "where j.ctid = f.at",
    "delete from {schema}.bucket where ctid = any (array("
    "select ctid from {schema}.bucket where x for update skip locked))",
]
_CARELESS = {
    "update {schema}.job set a = 1 where queue = 'q'": "update job",
    "with a as (delete from {schema}.job where id = any (%(ids)s) returning 1) select": "delete job",
    f"{_LOCKED} update {{schema}}.job set a = 1 where id in (select id from some)": "update job",
    # Places that nobody has locked, or that were waited for.
    "with some as (select ctid as at from {schema}.job where x) "
    "update {schema}.job j set a = 1 from some s where j.ctid = s.at": "update job",
    f"{_LOCKED}, few as (select at from some join {{schema}}.task using (task)), "
    "other as (select ctid as at from {schema}.job) "
    "update {schema}.job j set a = 1 from other o where j.ctid = o.at": "update job",
    # One way in goes by locked places, the other does not.
    f"{_LOCKED} delete from {{schema}}.job where a = 1 or ctid = any (array(select at from some))": (
        "delete job"
    ),
    "delete from {schema}.tally where ctid = any (array(select ctid from {schema}.tally))": (
        "delete tally"
    ),
    "insert into {schema}.control select 1 on conflict (name) do update set a = 1": (
        "upsert control"
    ),
    "select 1 from {schema}.worker where x order by id for no key update": "lock worker",
}


@pytest.mark.parametrize("sql", _CAREFUL)
def test_a_careful_write_passes(sql: str) -> None:
    assert _may_wait(sql) == []


@pytest.mark.parametrize("sql", _CARELESS)
def test_a_careless_write_is_found(sql: str) -> None:
    assert _may_wait(sql) == [_CARELESS[sql]]


@pytest.mark.parametrize("name", ["moves/rescue", "writes/mark_limited", "moves/promote"])
def test_a_file_that_forgets_to_skip_locked_rows_is_found(name: str) -> None:
    assert _may_wait(_FILES[name].replace(" skip locked", "")) != _may_wait(_FILES[name])
