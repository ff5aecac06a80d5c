-- As writes/resume.sql, with the owner's rights (functions/7_statements.sql).
select * from {schema}.operator_resume(%(kind)s::text, %(name)s::text, %(channel)s::text, %(now)s::timestamptz)
