-- As moves/cancel.sql, with the owner's rights (functions/7_statements.sql).
select * from {schema}.operator_cancel(%(ids)s::jsonb, %(channel)s::text, %(done)s::text, %(now)s::timestamptz)
