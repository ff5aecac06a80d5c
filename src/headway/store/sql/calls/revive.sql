-- As moves/revive.sql, with the owner's rights (functions/7_statements.sql).
select * from {schema}.operator_revive(%(id)s::uuid, %(step)s::text, %(channel)s::text, %(now)s::timestamptz)
