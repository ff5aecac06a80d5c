-- As writes/run_schedule.sql, with the owner's rights (functions/7_statements.sql).
select * from {schema}.operator_run_schedule(%(name)s::text, %(id)s::uuid, %(channel)s::text, %(now)s::timestamptz)
