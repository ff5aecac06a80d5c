-- As moves/purge.sql, with the owner's rights (functions/7_statements.sql).
select * from {schema}.operator_purge(%(queue)s::text, %(task)s::text, %(after)s::uuid, %(before)s::timestamptz, %(channel)s::text,
  %(done)s::text, %(now)s::timestamptz)
