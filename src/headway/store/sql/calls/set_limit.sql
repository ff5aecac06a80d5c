-- As writes/set_limit.sql, with the owner's rights (functions/7_statements.sql).
select * from {schema}.operator_set_limit(%(kind)s::text, %(name)s::text, %(concurrency)s::integer, %(rate)s::double precision,
  %(burst)s::integer, %(actor)s::text, %(channel)s::text, %(now)s::timestamptz)
