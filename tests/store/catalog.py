"""The contents of a schema as lines to compare, from the catalogs, without the schema's name."""

from __future__ import annotations

from typing import Any

import psycopg

_QUERIES = {
    "relation": """
        select c.relname || ' ' || c.relkind::text || ' ' || coalesce(c.reloptions::text, '') || ' '
               || coalesce(pg_get_expr(c.relpartbound, c.oid), '') || ' '
               || coalesce(pg_get_partkeydef(c.oid), '')
        from pg_class c where c.relnamespace = %(schema)s::regnamespace""",
    "column": """
        select c.relname || '.' || a.attnum || ' ' || a.attname || ' '
               || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull || ' '
               || a.attidentity::text || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
        from pg_attribute a join pg_class c on c.oid = a.attrelid
        left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where c.relnamespace = %(schema)s::regnamespace and a.attnum > 0""",
    "constraint": """
        select conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
        from pg_constraint where connamespace = %(schema)s::regnamespace""",
    "index": "select indexdef from pg_indexes where schemaname = %(schema)s",
    "view": "select viewname || definition from pg_views where schemaname = %(schema)s",
    "function": """
        select pg_get_functiondef(oid) from pg_proc where pronamespace = %(schema)s::regnamespace""",
    "sequence": """
        select sequencename || data_type || start_value || increment_by || cycle
        from pg_sequences where schemaname = %(schema)s""",
    "comment": """
        select c.relname || ' ' || d.description from pg_description d
        join pg_class c on c.oid = d.objoid where c.relnamespace = %(schema)s::regnamespace""",
}


def contents(conn: psycopg.Connection[Any], schema: str) -> dict[str, list[str]]:
    """Everything in a schema, kind by kind."""
    return {
        kind: sorted(
            row[0].replace(f'"{schema}".', "").replace(f"{schema}.", "").replace(schema, "")
            for row in conn.execute(query, {"schema": schema})  # type: ignore[arg-type]
        )
        for kind, query in _QUERIES.items()
    }


_OUTSIDE = """
    select 'relation ' || oid::regclass from pg_class
    where relnamespace <> all (%(ours)s) and relnamespace <> 'pg_toast'::regnamespace
    union all
    select 'function ' || oid::regprocedure from pg_proc where pronamespace <> all (%(ours)s)
    union all
    select 'type ' || oid::regtype from pg_type
    where typnamespace <> all (%(ours)s) and typnamespace <> 'pg_toast'::regnamespace
    union all select 'schema ' || nspname from pg_namespace where oid <> all (%(ours)s)
    union all select 'extension ' || extname from pg_extension
    -- Roles are the cluster's: other tests make theirs meanwhile, named after schemas of their own.
    union all select 'role ' || rolname from pg_roles
              where rolname not like 'headway_test%%' and left(rolname, 3) <> 'hw_'
    union all select 'setting ' || setrole || setconfig::text from pg_db_role_setting
    where setdatabase in (0, (select oid from pg_database where datname = current_database()))
    union all select 'trigger ' || evtname from pg_event_trigger"""


def outside(conn: psycopg.Connection[Any], *schemas: str) -> set[str]:
    """Everything of this database that is in none of these schemas."""
    query = "select oid from pg_namespace where nspname = any (%s)"
    ours = [row[0] for row in conn.execute(query, [list(schemas)])]
    return {row[0] for row in conn.execute(_OUTSIDE, {"ours": ours})}
