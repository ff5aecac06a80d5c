-- As writes/pause_schedule.sql, with the owner's rights (functions/7_statements.sql).
select * from {schema}.operator_pause_schedule(%(name)s::text, %(actor)s::text, %(reason)s::text, %(now)s::timestamptz)
