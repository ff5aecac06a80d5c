-- As writes/pause.sql, with the owner's rights (functions/7_statements.sql).
select * from {schema}.operator_pause(%(kind)s::text, %(name)s::text, %(actor)s::text, %(reason)s::text, %(until)s::timestamptz,
  %(lasting)s::double precision, %(channel)s::text, %(now)s::timestamptz)
