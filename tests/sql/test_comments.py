from __future__ import annotations

import re
from pathlib import Path

from tests.sql.hand import Hand

GUIDE = Path(__file__).parents[2] / "docs" / "sql.md"

PUBLIC = {
    "enqueue", "enqueue_many",
    "claim", "extend", "complete", "fail", "release", "snooze", "advance", "sweep", "prune",
    "retry", "cancel", "edit", "pause", "resume", "explain",
    "drain", "purge", "move", "metrics", "set_limit", "reset_limit",
    "pause_schedule", "resume_schedule", "run_schedule",
}  # fmt: skip


def test_public_functions_and_they_alone_say_what_they_do(hand: Hand) -> None:
    found = hand.rows(
        "select proname as name from pg_proc p join pg_description d on d.objoid = p.oid "
        "where pronamespace = %s::regnamespace and classoid = 'pg_proc'::regclass",
        hand.schema,
    )
    assert {row["name"] for row in found} == PUBLIC
    assert len(found) == len(PUBLIC)


def test_views_and_their_columns_say_what_they_mean(hand: Hand) -> None:
    bare = hand.rows(
        "select c.relname as view, a.attname as column from pg_class c "
        "join pg_attribute a on a.attrelid = c.oid and a.attnum >= 0 "
        "where c.relnamespace = %s::regnamespace and c.relkind = 'v' "
        "and col_description(c.oid, a.attnum) is null",
        hand.schema,
    )
    obvious = {"name", "kind", "queue", "task", "created_at", "changed_at", "finished_at", "max_attempts",
               "running", "paused", "paused_at", "paused_until", "pause_reason"}  # fmt: skip
    assert {row["column"] for row in bare} <= obvious
    views = hand.rows(
        "select relname as name, obj_description(oid, 'pg_class') as said from pg_class "
        "where relnamespace = %s::regnamespace and relkind = 'v'",
        hand.schema,
    )
    assert {view["name"] for view in views if view["said"]} == {view["name"] for view in views}
    public = {"jobs", "queues", "inbox", "controls", "schedules"}
    assert {view["name"] for view in views} == public | {
        "new_jobs"
    }  # Python's producers insert there


def test_the_guide_names_every_public_function() -> None:
    assert set(re.findall(r"headway\.(\w+)\(", GUIDE.read_text())) == PUBLIC
