-- As writes/resume_schedule.sql, with the owner's rights (functions/7_statements.sql).
select * from {schema}.operator_resume_schedule(%(name)s::text, %(channel)s::text, %(now)s::timestamptz)
